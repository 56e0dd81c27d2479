"""Facts about tensors without a framework: dtypes, statistics, checksums.

Interface, with the module that documents each part:

* `dtypes`: `find_dtype(spelling) -> DType | None` for any framework's spelling; `DType.name, kind, itemsize, digits,
  largest, code` (`code` is what the compiled kernel wants, -1 = not supported); `mindspore_name`,
  `round_to(dtype, value)`.
* `model`: `Precision`, `TensorMeta`, `TensorStats`, the table of what each statistic means, `NO_STATS` (all None), and
  for backends that measure by themselves `RawStats` with `finish(raw, dtype, precision) -> TensorStats` and
  `round_statistic(value, dtype, precision)`.
* `checksum`: `crc32(data) -> "cbf43926"`, `xor(data) -> "0x…"` on buffers and arrays;
  `format_crc32(int)`, `format_xor(int)` for values computed elsewhere.
* `numpy_ops` (needs numpy): `statistics(array, dtype=None, precision="low") -> TensorStats`, `meta(array)`,
  `decode(bits, dtype)`.

A backend with memory it can point at uses the compiled kernel instead, when there is one:

    from msprobe.native import fused            # Kernel or None
    values = fused.summary(t.data_ptr(), t.numel(), dtype.code, high)   # (max, min, mean, norm), finished
    stats = TensorStats(*values)
    *values, crc = fused.summary_crc32(...)     # the same and the CRC-32, in one pass over the memory

The statistics (not the checksums) do not depend on the order of elements, so a dense but transposed tensor needs no
copy. `fused.stats` gives raw moments (max, min, sum, sum of squares, NaN and infinite elements) for callers that join
several pieces.
"""

from __future__ import annotations
