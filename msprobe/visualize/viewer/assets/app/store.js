// What is shown, and every change of it. Components read the state and call the methods.

import { Model } from "msprobe/model.js";
import { isActive, lines, mask } from "msprobe/filter.js";
import { readFragment, writeFragment } from "msprobe/fragment.js";
import { Matching, twins } from "msprobe/matching.js";
import { searchesStacks, StackTexts } from "msprobe/stack_search.js";

export class Store {
  #listener = () => {};
  constructor(source) {
    this.source = source;
    this.state = {
      databases: [], db: 0, step: 0, rank: 0, model: null, facts: null, stacks: null, selected: -1, focus: -1, error: "",
      expanded: new Set(), filter: emptyFilter(), sort: "tree", view: "graph", tab: "parameters",
      help: false, picking: null, message: "",
    };
    this.matching = new Matching();
  }

  listen(listener) { this.#listener = listener; }
  set(changes) {
    Object.assign(this.state, changes);
    this.#remember();
    this.#listener();
  }
  get overview() { return this.state.databases[this.state.db]; }
  get at() { return { db: this.state.db, step: this.state.step, rank: this.state.rank }; }

  async begin() {
    try {
      this.state.databases = await this.source.index();
      await this.#follow(readFragment());
    } catch (error) {
      this.set({ error: `Cannot open: ${error.message}` });
    }
    addEventListener("hashchange", () => this.#follow(readFragment()));
  }

  async #follow(link) {
    const db = this.state.databases[Number(link.db)] ? Number(link.db) : 0;
    const { steps, ranks } = this.state.databases[db];
    const step = steps.includes(Number(link.step ?? NaN)) ? Number(link.step) : undefined;
    const rank = ranks.includes(Number(link.rank ?? NaN)) ? Number(link.rank) : undefined;
    Object.assign(this.state, { view: link.view ?? this.state.view, tab: link.tab ?? this.state.tab });
    if (link.sort) this.state.sort = link.sort;
    await this.show(db, step, rank, link);
  }

  // Show a step and rank; without them the first divergence says where to begin.
  async show(db, step, rank, link = {}) {
    const overview = this.state.databases[db];
    const first = (overview.meta.first_divergence ?? []).find((one) =>
      (step === undefined || one.step === step) && (rank === undefined || one.rank === rank));
    const at = { db, step: step ?? first?.step ?? overview.steps[0], rank: rank ?? first?.rank ?? overview.ranks[0] };
    try {
      const graph = await this.source.graph(at);
      const size = `${graph.target.names.length}+${graph.golden?.names.length ?? 0}`;
      this.matching.open(`${overview.name}/${at.step}/${at.rank}/${size}`);
      const model = new Model(graph, overview, this.matching.edits);
      let node = link.node ? model.find(link.node, link.side) : -1;
      if (node < 0) node = model.start(overview.meta.first_divergence);
      const filter = { ...emptyFilter(), query: link.q ?? "", onlyDifferences: model.divergent.length > 0 };
      Object.assign(this.state, { ...at, graph, model, filter, facts: null, stacks: null, expanded: new Set(model.roots), error: "" });
      this.select(node);
      this.#readStacks();
      const facts = await this.source.facts(at);
      if (this.state.graph === graph) this.set({ facts });
    } catch (error) {
      this.set({ ...at, model: null, error: `Cannot show step ${at.step}, rank ${at.rank}: ${error.message}` });
    }
  }

  select(node) {
    const { model, expanded } = this.state;
    if (!model || node < 0) return this.set({});
    for (const above of model.ancestors(node)) expanded.add(above);
    const inFocus = node === this.state.focus || model.parent[node] === this.state.focus;
    const focus = inFocus && this.state.focus < model.size ? this.state.focus : Math.max(model.parent[node], 0);
    return this.set({ selected: node, focus: model.parent[node] < 0 ? node : focus, reveal: node });
  }

  enter(node) {
    if (!this.state.model.children[node]) return;
    this.state.expanded.add(node);
    this.set({ focus: node, view: "graph" });
  }

  toggle(node, open = !this.state.expanded.has(node)) {
    this.state.expanded[open ? "add" : "delete"](node);
    this.set({});
  }

  narrow(changes) {
    this.state.filter = { ...this.state.filter, ...changes };
    this.set({ reveal: this.state.selected });
    this.#readStacks();
  }

  // Stacks are read when the first search asks for one.
  async #readStacks() {
    const { filter, graph, stacks } = this.state;
    if (stacks || !searchesStacks(filter)) return;
    try {
      const found = await this.source.stacks(this.at);
      if (this.state.graph === graph) this.set({ stacks: new StackTexts(found) });
    } catch (error) {
      this.set({ message: `Cannot search the stacks: ${error.message}` });
    }
  }

  // The lines of the tree; computed again only when something they depend on changed.
  get shown() {
    const { model, filter, facts, stacks, expanded, sort } = this.state;
    if (!model) return { lines: [], mask: null };
    const key = [model, filter, facts, stacks, sort];
    if (!this.maskKey || key.some((one, place) => one !== this.maskKey[place])) {
      this.maskKey = key;
      this.mask = mask(model, filter, { facts, stacks });
      this.flat = null;
    }
    const open = isActive(filter);
    const wanted = { expanded, shown: this.mask, sort, open, facts };
    if (sort === "tree") return { mask: this.mask, lines: lines(model, wanted) };
    this.flat ??= lines(model, wanted); // sorting is not free, and folding does not change it
    return { mask: this.mask, lines: this.flat };
  }

  // Walk over what differs, in the order of execution.
  divergence(direction) {
    const { model, selected } = this.state;
    const now = selected < 0 ? -Infinity : model.time[selected];
    const found = direction > 0
      ? model.divergent.find((node) => model.time[node] > now)
      : model.divergent.findLast((node) => model.time[node] < now);
    if (found === undefined) this.set({ message: direction > 0 ? "no later difference" : "no earlier difference" });
    else this.select(found);
  }

  // Edits of the pairing.
  match(target, golden, children) {
    const pairs = [[target, golden], ...twins(this.state.model, target, golden)];
    this.#edit(() => this.matching.add({ kind: "match", pairs, children }));
  }
  unmatch(target) { this.#edit(() => this.matching.add({ kind: "unmatch", target })); }
  undo() { if (this.matching.edits.length) this.#edit(() => this.matching.undo()); }

  #edit(change) {
    const { model, selected } = this.state;
    const [name, side] = [model.name(selected), model.targetName(selected) ? "target" : "golden"];
    const open = [...this.state.expanded].map((node) => [model.name(node), model.targetName(node) ? "target" : "golden"]);
    change();
    const next = new Model(this.state.graph, this.overview, this.matching.edits);
    const expanded = new Set(open.map(([one, where]) => next.find(one, where)).filter((node) => node >= 0));
    Object.assign(this.state, { model: next, expanded, picking: null, focus: -1 });
    this.select(next.find(name, side));
  }

  #remember() {
    const { model, selected, db, step, rank, view, tab, filter, sort } = this.state;
    if (!model || selected < 0) return;
    const side = model.targetName(selected) ? "" : "golden";
    writeFragment({ db: db || "", step, rank, node: model.name(selected), side, view, tab, q: filter.query,
      sort: sort === "tree" ? "" : sort });
  }
}

export const emptyFilter = () => ({ query: "", verdicts: new Set(), level: "all", dtype: "", onlyDifferences: false });
