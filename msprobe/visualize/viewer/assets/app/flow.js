// Which child gives its result to which, seen from the numbers: an output and a later input with the same dtype,
// shape and statistics (or checksum). Scalars and empty values say nothing.

const STATISTICS = ["Max", "Min", "Mean", "Norm"];

function prints(values, kind) {
  return Object.entries(values ?? {}).flatMap(([key, one]) => {
    if (key.includes(".parameters.") || !one || typeof one !== "object") return [];
    if (!one.shape || one.shape === "[]" || one.Max === undefined || one.Max === "null") return [];
    return [{ kind, print: [one.dtype, one.shape, one.md5 ?? STATISTICS.map((name) => one[name]).join()].join("|") }];
  });
}

// [{from, to, seen}] between places in `data`, the children's data in order of execution. A place without a giver
// follows the one before it, with seen = false.
export function flow(data) {
  const givers = new Map();
  const edges = [];
  data.forEach((one, place) => {
    const from = new Set(prints(one?.input, "input").map(({ print }) => givers.get(print)).filter((giver) => giver !== undefined));
    for (const giver of from) edges.push({ from: giver, to: place, seen: true });
    if (!from.size && place > 0) edges.push({ from: place - 1, to: place, seen: false });
    for (const { print } of prints(one?.output, "output")) givers.set(print, place);
  });
  return edges;
}
