// The pairs changed by hand, kept per graph in the browser, with undo.

const PREFIX = "msprobe-matching:";

export class Matching {
  #key = "";
  edits = [];

  open(name) {
    this.#key = PREFIX + name;
    try {
      this.edits = JSON.parse(localStorage.getItem(this.#key) ?? "[]");
    } catch {
      this.edits = []; // storage is closed to some pages opened from a file
    }
  }
  add(edit) { this.#keep([...this.edits, edit]); }
  undo() { this.#keep(this.edits.slice(0, -1)); }

  #keep(edits) {
    this.edits = edits;
    try {
      localStorage.setItem(this.#key, JSON.stringify(edits));
    } catch {
      // the pairs then last as long as the page
    }
  }
}

// The same calls in the other direction, and the gradients of the parameters, where both sides have them unpaired.
export function twins(model, target, golden) {
  const names = [model.target.names[target], model.golden.names[golden]];
  const other = (name) => [
    name.replace(/\.(forward|backward)(\.\d+)?$/, (_, way, call) => `.${way === "forward" ? "backward" : "forward"}${call ?? ""}`),
    name.replace(/\.(forward|backward)(\.\d+)?$/, ".parameters_grad"),
  ];
  const [ours, theirs] = names.map(other);
  return ours.flatMap((name, place) => {
    const pair = [model.target.names.indexOf(name), model.golden.names.indexOf(theirs[place])];
    const free = name !== names[0] && pair[0] >= 0 && pair[1] >= 0
      && model.pairs.target[pair[0]] < 0 && model.pairs.golden[pair[1]] < 0;
    return free ? [pair] : [];
  });
}

// Nodes without partner on the other side, the most alike first: same kind, then as many common name parts.
export function candidates(model, node, limit = 50) {
  const wanted = node < model.targets ? (other) => other >= model.targets : (other) =>
    other < model.targets && model.goldenOf(other) < 0;
  const parts = model.name(node).split(".");
  const own = new Set(parts);
  const type = model.label(node);
  const likeness = (other) => {
    const label = model.label(other);
    const common = model.name(other).split(".").filter((part) => own.has(part)).length / parts.length;
    return common + (label.type === type.type ? 1 : 0) + (label.direction === type.direction ? 1 : 0)
      + (model.kind(other) === model.kind(node) ? 2 : 0) + (model.parent[other] === model.parent[node] ? 1 : 0);
  };
  const found = [...model.sequence].filter(wanted).map((other) => [likeness(other), other]);
  found.sort((one, other) => other[0] - one[0] || model.time[one[1]] - model.time[other[1]]);
  return found.slice(0, limit).map(([, other]) => other);
}
