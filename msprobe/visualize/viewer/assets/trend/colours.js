// Colours of cells: a scale that is even to the eye (viridis) for values, green to red for differences.

const VALUE = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const DIFFERENCE = [[47, 122, 88], [96, 158, 120], [190, 201, 160], [240, 205, 110], [236, 146, 60], [214, 69, 52], [150, 20, 40]];
export const NAN = [227, 0, 140];
export const INFINITE = [255, 122, 0];

function between(list, share) {
  const place = Math.min(Math.max(share, 0), 1) * (list.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, list.length - 1), part = place - low;
  return list[low].map((one, channel) => Math.round(one + (list[high][channel] - one) * part));
}

// {share(value), colour(share), low, high, ticks}: how values of these cells become colours.
export function scaleOf(cells, log, difference) {
  const list = difference ? DIFFERENCE : VALUE;
  let low = Infinity, high = -Infinity;
  for (const value of cells) {
    const size = log ? Math.abs(value) : value;
    if (!Number.isFinite(size) || (log && size === 0)) continue;
    if (size < low) low = size;
    if (size > high) high = size;
  }
  if (difference) [low, high] = [1e-3, 1e3]; // one tolerance is in the middle
  if (!(low <= high)) [low, high] = [0, 1];
  const logarithmic = difference || (log && low > 0);
  const turn = logarithmic ? (value) => Math.log10(Math.max(Math.abs(value), 1e-300)) : (value) => value;
  const [bottom, top] = [turn(low), turn(high)];
  const span = top - bottom || 1;
  return { low, high, logarithmic, share: (value) => (top === bottom ? 0.5 : (turn(value) - bottom) / span),
    colour: (share) => between(list, share), back: (share) => (logarithmic ? 10 ** (bottom + share * span) : bottom + share * span) };
}

export function paletteOf(scale, count = 256) {
  return Array.from({ length: count }, (_, place) => scale.colour(place / (count - 1)));
}
