// Which nodes the tree shows: those that fit every condition, and what leads to them.

import { differs } from "msprobe/verdicts.js";
import { parsed } from "msprobe/names.js";
import { MARK } from "msprobe/stack_search.js";

export const LEVELS = {
  all: "all levels", module: "modules", api: "APIs", forward: "forward", backward: "backward",
};
const TYPES = { module: "0", api: "1" };

export const isActive = (filter) =>
  Boolean(filter.query || filter.verdicts.size || filter.level !== "all" || filter.dtype);

// {fits, leads}: per node 1 where it fits, and 1 where it or a node below it fits; null when nothing is filtered.
export function mask(model, filter, known) {
  if (!isActive(filter) && !filter.onlyDifferences) return null;
  const fits = new Uint8Array(model.size);
  const leads = new Uint8Array(model.size);
  const tests = conditions(model, filter, known);
  let found = 0;
  for (let place = model.sequence.length - 1; place >= 0; place--) {
    const node = model.sequence[place];
    if (tests.every((test) => test(node))) {
      fits[node] = leads[node] = 1;
      found++;
    }
    if (leads[node] && model.parent[node] >= 0) leads[model.parent[node]] = 1;
  }
  return { fits, leads, found };
}

function conditions(model, filter, { facts, stacks }) {
  const tests = [];
  if (filter.onlyDifferences) tests.push((node) => differs(model.verdict[node]) || Boolean(model.overflow(node)));
  if (filter.verdicts.size) tests.push((node) => filter.verdicts.has(model.verdict[node]));
  const words = filter.query.toLowerCase().split(/\s+/).filter(Boolean);
  const terms = words.filter((word) => !word.startsWith(MARK));
  if (terms.length) {
    const names = lowerNames(model);
    tests.push((node) => terms.every((term) => names[node].includes(term)));
  }
  for (const word of words.filter((one) => one.startsWith(MARK) && one.length > MARK.length)) {
    tests.push(stacks ? stacks.having(word.slice(MARK.length), model) : () => false);
  }
  if (TYPES[filter.level]) tests.push((node) => model.kind(node) === TYPES[filter.level]);
  else if (filter.level !== "all") tests.push((node) => parsed(model.name(node)).direction === filter.level);
  if (filter.dtype && facts) {
    const wanted = facts.dtypes.map((set) => set.includes(filter.dtype));
    tests.push((node) => node < model.targets && wanted[facts.dtype[node]]);
  }
  return tests;
}

function lowerNames(model) {
  model.lowerNames ??= Array.from({ length: model.size }, (_, node) =>
    `${model.targetName(node)}\n${model.goldenName(node)}`.toLowerCase());
  return model.lowerNames;
}

// The nodes to draw, one per line. Sorted by error or time it is a flat list of what fits.
export function lines(model, { expanded, shown, sort, open, facts }) {
  const fits = (node) => !shown || shown.fits[node];
  if (sort !== "tree") {
    const flat = [...model.sequence].filter((node) => fits(node) && !(shown === null && model.children[node]));
    const key = sort === "error" ? (node) => -(model.measured(node, facts) ?? -1) : (node) => model.time[node];
    return flat.sort((one, other) => key(one) - key(other) || model.time[one] - model.time[other]);
  }
  const found = [];
  const pending = [...model.roots].reverse();
  while (pending.length) {
    const node = pending.pop();
    if (shown && !shown.leads[node]) continue;
    found.push(node);
    const below = model.children[node];
    if (!below || !(open || expanded.has(node))) continue;
    for (let place = below.length - 1; place >= 0; place--) pending.push(below[place]);
  }
  return found;
}
