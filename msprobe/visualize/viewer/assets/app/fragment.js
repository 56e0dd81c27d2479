// Deep links: what is shown, in the part of the address after #.

const KEYS = ["db", "step", "rank", "node", "side", "view", "tab", "q", "sort"];

export function readFragment() {
  const values = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.filter((key) => values.has(key)).map((key) => [key, values.get(key)]));
}

export function writeFragment(values) {
  const pairs = KEYS.filter((key) => values[key] !== undefined && values[key] !== "").map((key) => [key, values[key]]);
  const wanted = `#${new URLSearchParams(pairs)}`;
  if (wanted !== location.hash) history.replaceState(null, "", wanted);
}
