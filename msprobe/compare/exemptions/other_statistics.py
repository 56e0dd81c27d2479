"""Two descriptions of one tensor by different tools, brought to what both of them say.

mindstudio-probe computes no Mean and Norm of integers, float64 and complex numbers and nothing of some dtypes; its Norm
of a single number keeps the sign; its Mean and Norm of half precision overflow; its xor of a single number is that
number; and its md5 is computed later than its statistics, often of memory that was changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import numpy as np

from msprobe.compare.records.otherwise import Otherwise
from msprobe.core.store.record_walk import NO_DATA, has_no_values
from msprobe.core.tensors.checksums import format_xor
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import same_record

Raw = Mapping[str, Any]
_DIGEST, _NORM = "md5", "Norm"
_MEASURES = (*STATISTIC_NAMES, _DIGEST)
_MAY_OVERFLOW = ("Mean", _NORM)
_CLOSE = 1e-5


class Comparable(NamedTuple):
    """Two descriptions that can be compared, target first; None where they can be as they are. ``reason`` says what is
    left out of them, or why they mean nothing."""

    raw: tuple[Raw, Raw] | None = None
    reason: Otherwise | None = None


def comparable_pair(pair: tuple[Raw, Raw], other: int, changed: Container[str] | None) -> Comparable:
    """Return the descriptions of a tensor, ``other`` of which (0 or 1) is of the other tool, as they are compared.

    ``changed`` are the checksums that tensors had before they were changed in place; None compares statistics.
    """
    own, theirs = pair[1 - other], pair[other]
    if NO_DATA in own and not has_no_values(theirs) and all(theirs.get(name) is None for name in _MEASURES):
        return Comparable(_in_order(own, {**theirs, NO_DATA: True}, other))
    if same_record(own, theirs) or has_no_values(own) or has_no_values(theirs) or element_count(own) == 0:
        return Comparable()
    if changed is None:
        return _of_statistics(own, theirs, other)
    return _of_checksums(own, theirs, other, changed)


def _of_statistics(own: Raw, theirs: Raw, other: int) -> Comparable:
    lacking = [name for name in STATISTIC_NAMES if own.get(name) is not None and theirs.get(name) is None]
    if lacking and all(theirs.get(name) is None for name in STATISTIC_NAMES):
        return Comparable(None, Otherwise.NO_STATISTICS)
    lacking += [name for name in _MAY_OVERFLOW if _overflows(theirs.get(name), own.get(name))]
    changed = dict(theirs)
    if not theirs.get("shape") and as_float(theirs.get(_NORM)) < 0.0:
        changed[_NORM] = -theirs[_NORM]
    for name in set(lacking) & theirs.keys():
        changed[name] = None
    if not lacking:
        return Comparable() if changed == theirs else Comparable(_in_order(own, changed, other))
    kept = {name: None if name in lacking else value for name, value in own.items()}
    return Comparable(_in_order(kept, changed, other), Otherwise.SOME_STATISTICS)


def _overflows(theirs: Any, own: Any) -> bool:
    return isinstance(theirs, float) and not math.isfinite(theirs) and math.isfinite(as_float(own))


def _in_order(own: Raw, theirs: Raw, other: int) -> tuple[Raw, Raw]:
    return (own, theirs) if other else (theirs, own)


def _of_checksums(own: Raw, theirs: Raw, other: int, changed: Container[str]) -> Comparable:
    digest = theirs.get(_DIGEST)
    if digest is None:
        return Comparable(None, Otherwise.NO_STATISTICS if own.get(_DIGEST) is not None else None)
    if not isinstance(digest, str):
        word = _xor_of_number(digest, str(own.get("dtype")))
        if word is None:
            return Comparable(None, Otherwise.NO_STATISTICS)
        return Comparable(_in_order(own, {**theirs, _DIGEST: word}, other))
    if digest == own.get(_DIGEST):
        return Comparable()
    if not own.get("shape") and digest.startswith("0x") and _low_bits(own, digest):
        return Comparable(_in_order(own, {**theirs, _DIGEST: own[_DIGEST]}, other))
    is_late = str(own.get(_DIGEST)) in changed and _same_statistics(own, theirs)
    return Comparable(None, Otherwise.CHECKSUMS if is_late else None)


def _xor_of_number(value: Any, dtype: str) -> str | None:
    """Return the checksum of a float that was recorded instead of it; None for a dtype that numpy does not have."""
    found = find_dtype(dtype)
    if found is None or found.kind is not DtypeKind.FLOAT or not isinstance(value, (int, float)):
        return None
    value = as_float(value)
    if found.name == "bfloat16":
        return format_xor(int(np.float32(value).view(np.uint32)) >> 16)
    if not found.is_native:
        return None
    return format_xor(int.from_bytes(np.dtype(found.name).type(value).tobytes(), "little"))


def _low_bits(own: Raw, digest: str) -> bool:
    """Return whether the digest of a single integer is that of msprobe, widened to 64 bits with its sign."""
    dtype = find_dtype(str(own.get("dtype")))
    if dtype is None or own.get(_DIGEST) is None:
        return False
    mask = (1 << (8 * dtype.itemsize)) - 1
    return int(digest, 16) & mask == int(str(own[_DIGEST]), 16) & mask


def _same_statistics(own: Raw, theirs: Raw) -> bool:
    """Return whether both sides have statistics, and those of one tensor."""
    largest = max(abs(as_float(own.get(name))) for name in ("Max", "Min"))
    if not math.isfinite(largest) or any(own.get(name) != theirs.get(name) for name in ("Max", "Min")):
        return False
    allowed = {"Mean": largest, _NORM: as_float(own.get(_NORM))}
    return all(
        theirs.get(name) is None or abs(abs(as_float(own.get(name))) - abs(as_float(theirs[name]))) <= _CLOSE * scale
        for name, scale in allowed.items()
    )
