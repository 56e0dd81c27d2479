// Which child gives a value to which. The database names the values that a node gets and gives, and says whether their
// memory was recorded. In one without them a value is an output and a later input with the same dtype, shape and
// statistics (or checksum); scalars and empty values say nothing.

const STATISTICS = ["Max", "Min", "Mean", "Norm"];

function prints(values) {
  return Object.entries(values ?? {}).flatMap(([key, one]) => {
    if (key.includes(".parameters.") || !one || typeof one !== "object") return [];
    if (!one.shape || one.shape === "[]" || one.Max === undefined || one.Max === "null") return [];
    return [[one.dtype, one.shape, one.md5 ?? STATISTICS.map((name) => one[name]).join()].join("|")];
  });
}

function valuesOf(one) {
  if (one?.values?.gets) return { gets: Object.entries(one.values.gets), gives: one.values.gives ?? [], named: true };
  return { gets: prints(one?.input).map((print) => [print, false]), gives: prints(one?.output), named: false };
}

// [{from, to, link, names}] between places in `data`, the children's data in order of execution; `link` is recorded,
// inferred, or order for a place without a giver, which follows the one before it.
export function flow(data) {
  const givers = new Map();
  const edges = [];
  data.forEach((one, place) => {
    const { gets, gives, named } = valuesOf(one);
    const into = new Map();
    for (const [value, recorded] of gets) {
      const from = givers.get(value);
      if (from === undefined) continue;
      const edge = into.get(from) ?? { from, to: place, link: "recorded", names: [] };
      if (!recorded) edge.link = "inferred";
      if (named) edge.names.push(value);
      into.set(from, edge);
    }
    edges.push(...into.values());
    if (!into.size && place > 0) edges.push({ from: place - 1, to: place, link: "order", names: [] });
    for (const value of gives) givers.set(value, place);
  });
  return edges;
}
