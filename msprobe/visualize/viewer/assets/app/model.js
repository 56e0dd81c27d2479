// Both sides of one step and rank as one tree: target nodes, and golden nodes without a partner at their place in it.
//
// A node is a number: below `targets` an index into the target side, from there on a golden node without a partner.

import { differs, heavier, NOT_COMPARED, UNMATCHED, ERROR, WARNING, OVERFLOWS, VERDICTS } from "msprobe/verdicts.js";
import { mergedChildren } from "msprobe/merging.js";
import { paired } from "msprobe/pairing.js";
import { shortened } from "msprobe/names.js";

export class Model {
  constructor(graph, overview, edits = []) {
    this.graph = graph;
    this.target = graph.target;
    this.golden = graph.golden;
    this.compared = Boolean(graph.golden);
    this.targets = this.target.names.length;
    this.hasErrors = this.target.errors.some((error) => error !== null);
    this.pairs = paired(graph, edits);
    const tree = mergedChildren(graph, this.pairs);
    Object.assign(this, { lonely: tree.lonely, parent: tree.parent, children: tree.children, roots: tree.roots });
    this.size = this.targets + this.lonely.length;
    this.#order();
    this.#judge();
    this.#place();
  }

  goldenOf(node) { return node < this.targets ? this.pairs.target[node] : this.lonely[node - this.targets]; }
  ofGolden(index) { return this.pairs.golden[index] >= 0 ? this.pairs.golden[index] : this.targets + this.lonelyAt.get(index); }
  targetName(node) { return node < this.targets ? this.target.names[node] : ""; }
  goldenName(node) { const index = this.goldenOf(node); return index >= 0 ? this.golden.names[index] : ""; }
  name(node) { return this.targetName(node) || this.goldenName(node); }
  kind(node) { return node < this.targets ? this.target.types[node] : this.golden.types[this.goldenOf(node)]; }
  error(node) { return node < this.targets ? this.target.errors[node] : null; }
  // The error in multiples of the tolerance; in databases without such errors the worst relative difference.
  measured(node, facts) {
    if (node >= this.targets || this.verdict[node] === UNMATCHED) return null;
    return this.hasErrors ? this.target.errors[node] : facts?.errors[node] ?? null;
  }
  reason(node) {
    if (node < this.targets && this.byHand(node)) return "paired by hand, not judged yet";
    const own = node < this.targets ? this.target.reasons[node] : this.golden.reasons[this.goldenOf(node)];
    return own ?? (node < this.targets ? "" : "only in the golden run");
  }
  // The first divergence of this step and rank, where a node is the call that it names.
  divergence(list, { step, rank }, node) {
    const name = this.targetName(node);
    const own = (list ?? []).find((one) => one?.step === step && one.rank === rank);
    if (!own) return undefined;
    return (name ? own.node === name : !own.node && own.golden_node === this.goldenName(node)) ? own : undefined;
  }
  overflow(node) { return node < this.targets ? this.target.overflow[node] : this.golden.overflow[this.goldenOf(node)]; }
  byHand(node) { return this.pairs.byHand.has(node); }

  label(node) { return shortened(this.name(node), this.parent[node] >= 0 ? this.name(this.parent[node]) : ""); }
  goldenLabel(node) {
    const index = this.goldenOf(node);
    if (index < 0) return null;
    const above = this.golden.parents[index];
    return shortened(this.golden.names[index], above >= 0 ? this.golden.names[above] : "");
  }
  ancestors(node) {
    const chain = [];
    for (let above = this.parent[node]; above >= 0; above = this.parent[above]) chain.unshift(above);
    return chain;
  }
  find(name, side = "target") {
    const place = (side === "golden" ? this.golden : this.target)?.names.indexOf(name) ?? -1;
    if (place < 0) return -1;
    return side === "golden" ? this.ofGolden(place) : place;
  }

  // Nodes in display order: parents before children.
  #order() {
    this.lonelyAt = new Map(this.lonely.map((index, place) => [index, place]));
    this.depth = new Uint16Array(this.size);
    this.sequence = new Int32Array(this.size);
    const pending = [...this.roots].reverse();
    let count = 0;
    while (pending.length) {
      const node = pending.pop();
      this.sequence[count++] = node;
      const below = this.children[node];
      if (!below) continue;
      for (let place = below.length - 1; place >= 0; place--) {
        this.depth[below[place]] = this.depth[node] + 1;
        pending.push(below[place]);
      }
    }
    this.sequence = this.sequence.subarray(0, count);
  }

  // Own verdicts, and for folded nodes the worst below with counts.
  #judge() {
    const size = this.size;
    this.verdict = new Uint8Array(size);
    const { byHand, parted } = this.pairs;
    for (let node = 0; node < size; node++) {
      const golden = this.goldenOf(node);
      if (node >= this.targets) this.verdict[node] = parted.has(`g${golden}`) ? UNMATCHED : this.golden.verdicts[golden];
      else if (golden < 0 && parted.has(`t${node}`)) this.verdict[node] = UNMATCHED;
      else this.verdict[node] = byHand.has(node) ? NOT_COMPARED : this.target.verdicts[node];
    }
    this.totals = new Array(VERDICTS.length).fill(0);
    for (const node of this.sequence) this.totals[this.verdict[node]]++;
    this.worst = Uint8Array.from(this.verdict);
    this.worstError = Float64Array.from({ length: size }, (_, node) => this.error(node) ?? -1);
    this.counts = { error: new Int32Array(size), warning: new Int32Array(size), unmatched: new Int32Array(size) };
    const { error, warning, unmatched } = this.counts;
    for (let place = this.sequence.length - 1; place >= 0; place--) {
      const node = this.sequence[place];
      const own = this.verdict[node];
      if (own === ERROR) error[node]++;
      else if (own === WARNING) warning[node]++;
      else if (own === UNMATCHED) unmatched[node]++;
      const above = this.parent[node];
      if (above < 0) continue;
      error[above] += error[node];
      warning[above] += warning[node];
      unmatched[above] += unmatched[node];
      this.worst[above] = heavier(this.worst[above], this.worst[node]);
      if (this.worstError[node] > this.worstError[above]) this.worstError[above] = this.worstError[node];
    }
  }

  // Places in the execution: as recorded, else as stored (children first); a golden node follows what stands before it.
  #place() {
    const recorded = this.target.order.some((place) => place !== null);
    this.time = new Float64Array(this.size).fill(-1);
    for (let node = 0; node < this.targets; node++) {
      this.time[node] = recorded ? this.target.order[node] ?? -1 : node;
    }
    for (let place = this.sequence.length - 1; place >= 0; place--) {
      const node = this.sequence[place];
      if (this.time[node] >= 0 || !this.children[node]) continue;
      for (const below of this.children[node]) this.time[node] = Math.max(this.time[node], this.time[below] + 0.25);
    }
    let last = -1;
    for (const node of this.sequence) {
      if (this.time[node] < 0) this.time[node] = last + 0.001;
      if (!this.children[node]) last = this.time[node];
    }
    this.divergent = [...this.sequence].filter((node) => this.#isDivergence(node));
    this.divergent.sort((one, other) => this.time[one] - this.time[other]);
  }

  #isDivergence(node) {
    if (!differs(this.verdict[node])) return false;
    const above = this.parent[node];
    return this.verdict[node] !== UNMATCHED || above < 0 || this.verdict[above] !== UNMATCHED;
  }

  // The named first divergence, else the earliest error, warning, overflow or node without partner, else the root.
  start(named) {
    for (const one of named ?? []) {
      if (one.step !== null && one.step !== undefined && one.step !== this.graph.step) continue;
      if (one.rank !== null && one.rank !== undefined && one.rank !== this.graph.rank) continue;
      let node = one.node ? this.find(one.node) : -1;
      if (node < 0 && one.golden_node) node = this.find(one.golden_node, "golden");
      if (node >= 0) return node;
    }
    for (const verdict of [ERROR, WARNING]) {
      const found = this.divergent.find((node) => this.verdict[node] === verdict);
      if (found !== undefined) return found;
    }
    return this.overflowing()[0] ?? this.divergent[0] ?? this.roots[0] ?? -1;
  }

  overflowing() {
    const rank = (node) => OVERFLOWS.indexOf(this.overflow(node));
    const found = [...this.sequence].filter((node) => rank(node) >= 0);
    return found.sort((one, other) => rank(one) - rank(other) || this.time[one] - this.time[other]);
  }
}

