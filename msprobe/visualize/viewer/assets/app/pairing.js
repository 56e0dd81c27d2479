// Which target node belongs to which golden node: as stored, then as changed by hand.

import { place } from "msprobe/names.js";

// {target, golden}: the partner's index or -1; byHand: target nodes whose partner was chosen by hand; parted: golden
// and target nodes that lost their partner, as `t3` and `g7`.
export function paired(graph, edits) {
  const target = Int32Array.from(graph.target.matches);
  const golden = Int32Array.from(graph.golden?.matches ?? []);
  const pairs = { target, golden, byHand: new Set(), parted: new Set() };
  const roots = [graph.target, graph.golden].map((side) => side?.parents.indexOf(-1) ?? -1);
  if (roots[0] >= 0 && roots[1] >= 0 && target[roots[0]] < 0 && golden[roots[1]] < 0) join(pairs, ...roots);
  for (const edit of edits) {
    if (edit.kind === "unmatch") part(pairs, edit.target);
    else for (const [one, other] of edit.pairs) (edit.children ? joinBelow : joinOnly)(graph, pairs, one, other);
  }
  return pairs;
}

function join(pairs, target, golden) {
  pairs.target[target] = golden;
  pairs.golden[golden] = target;
}

function part(pairs, target) {
  if (pairs.target[target] >= 0) {
    pairs.golden[pairs.target[target]] = -1;
    pairs.parted.add(`t${target}`).add(`g${pairs.target[target]}`);
  }
  pairs.target[target] = -1;
  pairs.byHand.delete(target);
}

function joinByHand(pairs, target, golden) {
  part(pairs, target);
  if (pairs.golden[golden] >= 0) part(pairs, pairs.golden[golden]);
  join(pairs, target, golden);
  pairs.byHand.add(target);
}

const joinOnly = (graph, pairs, target, golden) => joinByHand(pairs, target, golden);

// The two nodes, and below them those without a partner that stand at the same place in both.
function joinBelow(graph, pairs, target, golden) {
  const below = [childLists(graph.target), childLists(graph.golden)];
  const pending = [[target, golden]];
  joinByHand(pairs, target, golden);
  while (pending.length) {
    const [one, other] = pending.pop();
    const free = new Map();
    for (const child of below[1][other] ?? []) {
      if (pairs.golden[child] < 0) free.set(placeOf(graph.golden, child), child);
    }
    for (const child of below[0][one] ?? []) {
      const partner = pairs.target[child] < 0 ? free.get(placeOf(graph.target, child)) : undefined;
      if (partner !== undefined) joinByHand(pairs, child, partner);
      if (pairs.target[child] >= 0) pending.push([child, pairs.target[child]]);
    }
  }
}

const placeOf = (side, node) => place(side.names[node], side.names[side.parents[node]] ?? "");

export function childLists(side) {
  const lists = new Array(side.names.length);
  side.parents.forEach((above, node) => {
    if (above >= 0) (lists[above] ??= []).push(node);
  });
  return lists;
}
