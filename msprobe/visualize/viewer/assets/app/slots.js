// Values of two partners side by side: by the slot in their name, what is left over by its order in the group.

const GROUPS = ["input", "parameters", "output", "parameters_grad"];

// [{slot, target, golden}], each side an object of texts or null
export function slots(data, names) {
  const sides = ["target", "golden"].map((side) => entries(data[side], names[side]));
  const found = [];
  for (const group of [...GROUPS, "other"]) {
    const [one, other] = sides.map((side) => side.filter((entry) => entry.group === group));
    const rest = new Map(other.map((entry) => [entry.slot, entry]));
    const pairs = one.map((entry) => {
      const partner = rest.get(entry.slot);
      rest.delete(entry.slot);
      return [entry, partner];
    });
    const spare = [...rest.values()];
    for (const [entry, partner] of pairs) {
      const golden = partner ?? (group === "parameters" ? undefined : spare.shift());
      found.push({ slot: entry.slot, target: entry.values, golden: golden?.values ?? null });
    }
    for (const entry of spare) found.push({ slot: entry.slot, target: null, golden: entry.values });
  }
  return found;
}

function entries(data, name) {
  if (!data) return [];
  const list = [...Object.entries(data.input), ...Object.entries(data.output)];
  return list.map(([key, values]) => {
    const slot = key.startsWith(`${name}.`) ? key.slice(name.length + 1) : key;
    const group = GROUPS.find((one) => slot === one || slot.startsWith(`${one}.`));
    const gradient = name.includes("parameters_grad");
    return { slot, values: asObject(values), group: group ?? (gradient ? "parameters_grad" : "other") };
  });
}

const asObject = (values) => (values && typeof values === "object" ? values : { value: String(values) });
