// The merged tree: golden nodes without a partner take their place between the partners of their siblings.

import { childLists } from "msprobe/pairing.js";

// {lonely: golden indexes, parent: per node, children: per node an array or undefined, roots}
export function mergedChildren(graph, pairs) {
  const targets = graph.target.names.length;
  const lonely = [];
  pairs.golden.forEach((partner, index) => {
    if (partner < 0) lonely.push(index);
  });
  const size = targets + lonely.length;
  const children = childLists(graph.target);
  children.length = size;
  const parent = new Int32Array(size).fill(-1);
  graph.target.parents.forEach((above, node) => { parent[node] = above; });

  const root = graph.target.parents.indexOf(-1);
  const nodeOf = new Map(lonely.map((index, place) => [index, targets + place]));
  const added = new Map();
  for (const index of lonely) {
    const above = graph.golden.parents[index];
    const node = above < 0 ? root : nodeOf.get(above) ?? pairs.golden[above];
    parent[nodeOf.get(index)] = node;
    if (node >= 0) added.has(node) ? added.get(node).push(nodeOf.get(index)) : added.set(node, [nodeOf.get(index)]);
  }
  if (added.size) {
    const below = childLists(graph.golden);
    for (const [node, guests] of added) {
      const golden = node < targets ? pairs.target[node] : lonely[node - targets];
      const placed = spliced(node, children[node] ?? [], below[golden] ?? [], { pairs, parent, nodeOf });
      const seen = new Set(placed);
      children[node] = [...placed, ...guests.filter((guest) => !seen.has(guest))];
    }
  }
  const roots = [];
  for (let node = 0; node < size; node++) if (parent[node] < 0) roots.push(node);
  return { lonely, parent, children, roots };
}

function spliced(node, own, golden, { pairs, parent, nodeOf }) {
  const after = new Map([[-1, []]]);
  let anchor = -1;
  for (const index of golden) {
    const partner = pairs.golden[index];
    if (partner >= 0 && parent[partner] === node) {
      anchor = partner;
      after.set(anchor, []);
    } else if (partner < 0 && parent[nodeOf.get(index)] === node) {
      after.get(anchor).push(nodeOf.get(index));
    }
  }
  return [...after.get(-1), ...own.flatMap((child) => [child, ...(after.get(child) ?? [])])];
}
