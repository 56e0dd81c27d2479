// Stored texts as numbers people can read; the exact text stays in the tooltip.

const DIGITS = 5;

export function readable(text) {
  if (text === null || text === undefined || text === "" || text === "null") return "–";
  const shown = String(text);
  const percent = shown.endsWith("%");
  const bare = percent ? shown.slice(0, -1) : shown;
  if (!/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(bare)) return shown;
  return rounded(Number(bare)) + (percent ? " %" : "");
}

export function rounded(value) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value) || value >= 1e300) return value > 0 ? "∞" : String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(DIGITS - 2).replace("e+", "e");
  return String(Number(value.toPrecision(DIGITS)));
}

export function asNumber(text) {
  const value = Number(String(text ?? "").replace("%", ""));
  return text === null || text === undefined || text === "" || Number.isNaN(value) ? null : value;
}
