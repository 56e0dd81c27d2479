// Where the cells come from: the local server, or the compressed parts of the page itself. Both answer the same way.

import { bitsOf, reduced, transposed } from "msprobe/trend/cells.js";

export const AXES = { "step-layer": ["step", "layer", "rank"], "step-rank": ["step", "rank", "layer"], "rank-layer": ["rank", "layer", "step"] };
export const fits = (name, query) => query.toLowerCase().split(/\s+/).every((word) => name.toLowerCase().includes(word));

const token = new URLSearchParams(location.search).get("token") ?? ""; // of the server; an offline page has none

class Served {
  live = true;
  async #ask(question, values = {}) {
    const answer = await fetch(`api/${question}?${new URLSearchParams({ ...values, token })}`);
    if (!answer.ok) throw new Error((await answer.json()).error ?? `the server answered ${answer.status}`);
    return answer;
  }
  async #cells(question, values) {
    const content = await (await this.#ask(question, values)).arrayBuffer();
    const end = new Uint8Array(content).indexOf(10);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 0, end)));
    return { ...head, cells: new Float32Array(content, end + 1) };
  }
  async index() { return (await this.#ask("index")).json(); }
  async state() { return (await this.#ask("state")).json(); }
  async parting() { return (await this.#ask("parting")).json(); }
  picture(wanted) { return this.#cells("picture", wanted); }
  line(wanted) { return this.#cells("line", wanted); }
}

class Inside {
  live = false;
  #kept = new Map();
  async index() { this.facts ??= JSON.parse(new TextDecoder().decode(await unpacked("index"))); return this.facts; }
  async parting() { return JSON.parse(new TextDecoder().decode(await unpacked("parting"))); }

  async #cube(side, metric, statistic) {
    const number = this.facts.metrics.findIndex((one) => one.name === metric);
    const place = this.facts.metrics[number].statistics.indexOf(statistic);
    const name = `cells-${side}-${number}-${place}`;
    if (!this.#kept.has(name)) this.#kept.set(name, unpacked(name).then((bytes) => new Float32Array(bytes.buffer)));
    const { steps, ranks, metrics, each } = this.facts;
    return { cells: await this.#kept.get(name), groups: Math.ceil(steps.length / each), layers: metrics[number].layers, ranks };
  }

  // The positions of an axis as the pictures count them, and what they are in the cube.
  #along(axis, cube, query) {
    const { steps, each } = this.facts;
    if (axis === "step") return steps.map((_, place) => Math.floor(place / each));
    if (axis === "rank") return cube.ranks.map((_, place) => place);
    return cube.layers.flatMap((name, place) => (fits(name, query) ? [place] : []));
  }

  async picture({ side, metric, statistic, layout, third, x0, x1, y0, y1, columns, rows, query }) {
    const cube = await this.#cube(side, metric, statistic);
    const [x, y, other] = AXES[layout];
    const [allX, allY] = [this.#along(x, cube, query), this.#along(y, cube, query)];
    const fixed = this.#along(other, cube, "")[third];
    const [wide, high] = [allX.slice(x0, x1), allY.slice(y0, y1)];
    const taken = new Float32Array(wide.length * high.length);
    const [from, into] = [bitsOf(cube.cells), bitsOf(taken)];
    const at = { [other]: fixed };
    wide.forEach((place, column) => {
      at[x] = place;
      high.forEach((one, row) => {
        at[y] = one;
        into[column * high.length + row] = from[(at.rank * cube.groups + at.step) * cube.layers.length + at.layer];
      });
    });
    const each = [Math.max(1, Math.ceil(wide.length / columns)), Math.max(1, Math.ceil(high.length / rows))];
    const narrow = reduced(taken, wide.length, high.length, each[0]);
    const count = Math.ceil(wide.length / each[0]);
    const cells = reduced(transposed(narrow, count, high.length), high.length, count, each[1]);
    return { rows: Math.ceil(high.length / each[1]), columns: count, each, total: [allX.length, allY.length],
      layers: y === "layer" ? high : [], cells };
  }

  async line({ metric, statistic, along, begin, end, ...place }) {
    const sides = this.facts.compared ? ["target", "golden", "difference"] : ["target"];
    const found = [];
    for (const side of sides) {
      const cube = await this.#cube(side, metric, statistic);
      const at = { step: Math.floor(place.step / this.facts.each), rank: place.rank, layer: place.layer };
      found.push(this.#along(along, cube, "").slice(begin, end).map((one) => {
        const here = { ...at, [along]: one };
        return (here.rank * cube.groups + here.step) * cube.layers.length + here.layer;
      }).map((one) => bitsOf(cube.cells)[one]));
    }
    const cells = new Float32Array(found.length * found[0].length);
    bitsOf(cells).set(found.flat());
    return { rows: found.length, columns: found[0].length, each: 1, begin, cells };
  }
}

async function unpacked(name) {
  const element = document.getElementById(name);
  if (!element) throw new Error(`the page has no part ${name}; it may have been cut off when it was copied`);
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const openSource = () => (document.getElementById("index") ? new Inside() : new Served());
