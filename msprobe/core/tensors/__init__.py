"""Facts about tensors without a framework: dtypes, statistics, checksums.

The interface, with the module that documents each part:

* `dtypes`: `find_dtype(spelling) -> DType | None` for any framework's spelling; `DType.name, kind, itemsize, digits,
  largest, code` (`code` is what the compiled kernel wants, -1 = not supported); `mindspore_name`,
  `round_to(dtype, value)`.
* `statistics`: `STATISTICS`, the table of all statistics; `Precision`, `TensorMeta`, `TensorStats`, `NO_STATS` (all
  None); for backends that measure by themselves `RawStats` with `finish(raw, dtype, precision) -> TensorStats`.
* `checksums`: `crc32(data) -> "cbf43926"`, `xor(data) -> "0x…"` on buffers and arrays;
  `format_crc32(int)`, `format_xor(int)` for values computed elsewhere.
* `projection`: the statistic that sees elements which changed places; it is measured where a setting asks for it.
* `numpy_ops` (needs numpy): `statistics(array, dtype=None, precision="low") -> TensorStats`, `meta(array)`,
  `decode(bits, dtype)`.

A backend whose tensors have an address uses the compiled kernel instead, when there is one:

    from msprobe.native import measuring        # Kernel, or None when it does not measure all statistics of the table
    values = measuring.summary(t.data_ptr(), t.numel(), dtype.code, high)   # in table order, rounded
    stats = TensorStats(*values)
    *values, crc = measuring.summary_crc32(...) # the same and the CRC-32, in one pass over the memory

The statistics (not the checksums) do not depend on the order of elements, so a dense but transposed tensor needs no
copy. `measuring.stats` returns raw moments (max, min, sum, sum of squares, NaN and infinite elements) for callers that
join several pieces.
"""

from __future__ import annotations
