// Cells of float32: which are absent, NaN or infinite, and what stands for a group of neighbours.

export const ABSENT = 0x7fc0dead;
const NAN = 0x7fc00000;

export const bitsOf = (cells) => new Uint32Array(cells.buffer, cells.byteOffset, cells.length);

// The extreme of groups of `each` neighbours along the first axis of rows x columns.
export function reduced(cells, rows, columns, each) {
  const groups = Math.ceil(rows / each);
  const result = new Float32Array(groups * columns);
  const [from, into] = [bitsOf(cells), bitsOf(result)];
  into.fill(ABSENT);
  for (let row = 0; row < rows; row++) {
    const at = Math.floor(row / each) * columns;
    for (let column = 0; column < columns; column++) {
      const place = row * columns + column, here = at + column;
      if (from[place] === ABSENT) continue;
      const [value, best] = [cells[place], result[here]];
      if (Number.isNaN(value)) into[here] = NAN;
      else if (into[here] === ABSENT || (!Number.isNaN(best) && Math.abs(value) > Math.abs(best))) result[here] = value;
    }
  }
  return result;
}

export function transposed(cells, rows, columns) {
  const result = new Float32Array(cells.length);
  const [from, into] = [bitsOf(cells), bitsOf(result)];
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) into[column * rows + row] = from[row * columns + column];
  return result;
}

// Words for a value.
export function kind(value, bits) {
  if (bits === ABSENT) return "no value";
  if (Number.isNaN(value)) return "NaN";
  return value === Infinity ? "∞" : value === -Infinity ? "-∞" : "";
}
