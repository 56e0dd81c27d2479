// What is shown, and every change of it. A change asks for cells; answers that came too late are dropped.

import { AXES, fits } from "msprobe/trend/source.js";

const ASK_AGAIN = 2000; // milliseconds between two looks at the files
const [MANY, COARSE] = [1000, 8];
const KEYS = ["metric", "statistic", "layout", "side", "step", "rank", "layer", "q"];

export class Store {
  #listener = () => {};
  #asked = 0;
  #asking = 0;
  constructor(source) {
    this.source = source;
    this.state = {
      facts: null, error: "", message: "", metric: "", statistic: "", layout: "step-layer", side: "target", query: "",
      at: { step: 0, rank: 0, layer: 0 }, x: [0, 1], y: [0, 1], log: true, along: "", picture: null, line: null,
      parting: { state: "alone" }, help: false, live: false, size: [900, 420],
    };
  }

  listen(listener) { this.#listener = listener; }
  set(changes) {
    Object.assign(this.state, changes);
    this.#listener();
  }

  get axes() { return AXES[this.state.layout]; }
  get metric() { return this.state.facts.metrics.find((one) => one.name === this.state.metric) ?? this.state.facts.metrics[0]; }
  get shownLayers() {
    const { query } = this.state;
    return this.metric.layers.flatMap((name, place) => (fits(name, query) ? [place] : []));
  }
  length(axis) {
    const { facts } = this.state;
    return axis === "step" ? facts.steps.length : axis === "rank" ? facts.ranks.length : this.shownLayers.length;
  }
  // The name of a position on an axis; positions of layers count all of them.
  name(axis, place) {
    const { facts } = this.state;
    return axis === "layer" ? this.metric.layers[place] ?? "" : String((axis === "step" ? facts.steps : facts.ranks)[place] ?? "");
  }

  async begin() {
    try {
      const facts = await this.source.index();
      if (!facts.metrics.length) throw new Error("the database has no values");
      this.state.facts = facts;
      this.#follow(facts);
      await this.refresh();
      requestAnimationFrame(() => performance.mark("msprobe-opened")); // measured by benchmarks/trend.py
      this.#findParting();
      if (this.source.live) setTimeout(() => this.#watch(), ASK_AGAIN);
    } catch (error) {
      this.set({ error: `Cannot open: ${error.message}` });
    }
  }

  #follow(facts) {
    const link = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const metric = facts.metrics.find((one) => one.name === link.metric) ?? facts.metrics[0];
    const statistic = metric.statistics.includes(link.statistic) ? link.statistic : metric.statistics[0];
    const place = (list, value) => Math.max(0, list.indexOf(value));
    Object.assign(this.state, { metric: metric.name, statistic, query: link.q ?? "",
      layout: AXES[link.layout] ? link.layout : facts.steps.length > 1 ? "step-layer" : "rank-layer",
      side: facts.compared && ["golden", "difference"].includes(link.side) ? link.side : "target",
      at: { step: place(facts.steps, Number(link.step)), rank: place(facts.ranks, Number(link.rank)), layer: place(metric.layers, link.layer) } });
    this.whole();
  }

  whole() { this.state.x = [0, this.length(this.axes[0])]; this.state.y = [0, this.length(this.axes[1])]; }

  // Every change of the view: what is shown, and the cells for it. Resolves when the picture is drawn.
  async change(changes, anew = false) {
    const before = this.state.metric;
    Object.assign(this.state, changes, { message: "" });
    if (this.state.metric !== before) {
      const { metric, state } = this;
      if (!metric.statistics.includes(state.statistic)) state.statistic = metric.statistics[0];
      const name = state.facts.metrics.find((one) => one.name === before)?.layers[state.at.layer];
      state.at.layer = Math.max(0, metric.layers.indexOf(name));
      anew = true;
    }
    if (anew || changes.layout || changes.query !== undefined) this.whole();
    const [begin, end] = this.state.x;
    if (end - begin > MANY) this.state.x = [begin - (begin % COARSE), end]; // as the files have them
    await this.refresh();
  }

  async refresh() {
    const asked = ++this.#asked;
    const { state } = this;
    const { side, metric, statistic, layout, x, y, size, query, at } = state;
    this.#asking++;
    try {
      const wanted = { side, metric, statistic, layout, third: at[this.axes[2]], x0: x[0], x1: x[1], y0: y[0], y1: y[1],
        columns: Math.max(50, size[0]), rows: Math.max(20, size[1]), query };
      const [picture, line] = await Promise.all([this.source.picture(wanted), this.source.line(this.#lineWanted())]);
      if (asked !== this.#asked) return;
      this.set({ picture: { ...picture, key: asked, x, y, side }, line: { ...line, key: asked, along: this.along }, error: "" });
      this.#remember();
      await new Promise((done) => requestAnimationFrame(done));
    } catch (error) {
      if (asked === this.#asked) this.set({ message: `Cannot show this: ${error.message}` });
    } finally {
      this.#asking--;
    }
  }

  // The line is that of the third axis, where that has more than one place.
  get along() { return this.state.along || (this.length(this.axes[2]) > 1 ? this.axes[2] : this.axes[0]); }
  #lineWanted() {
    const { metric, statistic, at } = this.state;
    const count = this.along === "layer" ? this.metric.layers.length : this.length(this.along);
    return { metric, statistic, along: this.along, ...at, begin: 0, end: count };
  }

  select(at) { return this.change({ at: { ...this.state.at, ...at } }); }

  // Move the selection along x or y by steps of the picture.
  move(axis, by) {
    const { picture, at } = this.state;
    const name = this.axes[axis];
    const list = name === "layer" ? this.shownLayers : null;
    const now = list ? Math.max(0, list.indexOf(at.layer)) : at[name];
    const next = Math.min(Math.max(now + by * (picture?.each[axis] ?? 1), 0), this.length(name) - 1);
    return this.select({ [name]: list ? list[next] ?? 0 : next });
  }

  zoom(factor, centre = 0.5) {
    const [begin, end] = this.state.x;
    const count = this.length(this.axes[0]);
    const wide = Math.min(Math.max(Math.round((end - begin) * factor), Math.min(4, count)), count);
    const at = begin + (end - begin) * centre;
    const first = Math.min(Math.max(Math.round(at - wide * centre), 0), count - wide);
    return this.change({ x: [first, first + wide] });
  }

  // Go to a place that an alert or the parting of two runs names.
  go({ metric, statistic, step, rank, layer }, side) {
    const { state } = this;
    const known = state.facts.metrics.find((one) => one.name === metric)?.statistics.includes(statistic);
    const changes = { metric, at: { step, rank, layer }, query: "", ...(known ? { statistic } : {}), ...(side ? { side } : {}) };
    if (state.metric !== metric) {
      state.metric = metric;
      changes.metric = metric;
    }
    return this.change(changes, true);
  }

  nextAlert(direction) {
    const { facts, at, metric } = this.state;
    const key = ([, step, rank, layer]) => step * 1e9 + rank * 1e6 + layer;
    const all = [...facts.alerts].sort((one, other) => key(one) - key(other));
    const now = key([metric, at.step, at.rank, at.layer]);
    const found = direction > 0 ? all.find((one) => key(one) > now) : all.findLast((one) => key(one) < now);
    if (!found) return this.set({ message: facts.alerts.length ? "no further alert" : "the run has no alerts" });
    const [name, step, rank, layer, statistic] = found;
    return this.go({ metric: name, statistic, step, rank, layer });
  }

  async #findParting() {
    const parting = await this.source.parting();
    this.set({ parting });
    if (parting.state === "searching") setTimeout(() => this.#findParting(), 300);
  }

  // The files grow while a training runs: whoever looks at the end goes on looking at the end.
  async #watch() {
    try {
      const { revision } = await this.source.state();
      if (revision !== this.state.facts.revision && !this.#asking) {
        const atEnd = this.axes.slice(0, 2).map((axis, place) => this.state["xy"[place]][1] >= this.length(axis));
        const before = this.state.facts;
        const name = this.metric.layers[this.state.at.layer];
        this.state.facts = await this.source.index();
        this.state.at.layer = Math.max(0, this.metric.layers.indexOf(name));
        this.state.at.step = Math.min(this.state.at.step, this.state.facts.steps.length - 1);
        this.axes.slice(0, 2).forEach((axis, place) => {
          if (atEnd[place]) this.state["xy"[place]] = [this.state["xy"[place]][0], this.length(axis)];
        });
        this.state.live = this.state.facts.steps.length > before.steps.length;
        await this.refresh();
        this.#findParting();
      }
    } catch {
      this.set({ live: false, message: "the server does not answer any more" });
    }
    setTimeout(() => this.#watch(), ASK_AGAIN);
  }

  #remember() {
    const { metric, statistic, layout, side, at, query, facts } = this.state;
    const values = { metric, statistic, layout, side, step: facts.steps[at.step], rank: facts.ranks[at.rank],
      layer: this.metric.layers[at.layer], q: query };
    const pairs = KEYS.filter((key) => values[key] !== undefined && values[key] !== "").map((key) => [key, values[key]]);
    history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
  }
}
