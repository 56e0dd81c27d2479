"""What the rows of a table say by themselves: nothing here looks at another entry, so parts of a table can be asked
apart from each other and their answers put together.

Whether two arguments that are no tensors are the same: numbers up to rounding, devices by kind, dtypes by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.differences.statistics_arrays import (
    exact_integer_differences,
    largest_inputs,
    projections_apart,
    properties,
    statistics,
)
from msprobe.compare.records.leaves import INPUT, PARAMETER, Leaf, element_count, is_tensor
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.tensors.dtypes import same_dtype
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS, ToleranceOf
from msprobe.numerics.tolerance import rounded_to
from msprobe.numerics.verdict import Bools, Floats, Ints, Role, RowKind

_IGNORED = frozenset({"group_id", "requires_grad", "data_name", "md5"})
_DEVICE_TYPES = ("cpu", "cuda", "npu", "meta", "mps", "xpu")
_SCALAR_NOISE = 4e-6


def argument_differs(ours: Any, theirs: Any) -> bool:
    """Whether two recorded arguments, neither of them a pair of tensors, differ."""
    if type(ours) is dict and type(theirs) is dict:
        if _same_dtype(ours.get("value"), theirs.get("value")):
            return False
        if ours.get("type") != theirs.get("type"):
            return True
        left = {key: value for key, value in ours.items() if key not in _IGNORED}
        right = {key: value for key, value in theirs.items() if key not in _IGNORED}
        return left.keys() != right.keys() or any(_value_differs(left[key], right[key]) for key in left)
    return _value_differs(ours, theirs)


def _value_differs(left: Any, right: Any) -> bool:
    if type(left) is float and type(right) is float:
        if left != left or right != right:
            return not (left != left and right != right)
        return not math.isclose(left, right, rel_tol=_SCALAR_NOISE)
    if type(left) is str and type(right) is str and left.split(":")[0] in _DEVICE_TYPES:
        return right.split(":")[0] not in _DEVICE_TYPES
    return type(left) is not type(right) or bool(left != right)


def _same_dtype(left: Any, right: Any) -> bool:
    """``Float32`` and ``torch.float32`` given as an argument."""
    return type(left) is str and type(right) is str and left != right and same_dtype(left, right)


_NOTHING = Leaf("", "", None)
_NORM = STATISTIC_NAMES.index("Norm")
_ELEMENTS, _MEANS, _NORMS = (
    [number for number, spec in enumerate(STATISTICS) if spec.tolerance is tolerance]
    for tolerance in (ToleranceOf.ELEMENT, ToleranceOf.MEAN, ToleranceOf.NORM)
)
_ROLES = {INPUT: int(Role.INPUT), PARAMETER: int(Role.PARAMETER)}


@dataclass(slots=True)
class RowFacts:
    """``role`` and ``kind`` have a value per row; ``numeric`` are the rows, ascending, that are measured by their
    statistics.

    The further ones have a line per numeric row, in units of the data: ``apart`` the differences of the largest
    element, mean, norm and projection; ``size`` the largest element and the norm on either side; ``norms`` those of
    target and golden. ``roundoff``, ``numel`` and ``longest`` belong to the golden tensor.
    ``given`` has root mean square and element count of the largest tensor given to each backward entry; NaN elsewhere.
    """

    role: Ints
    kind: Ints
    numeric: Ints
    apart: Floats
    size: Floats
    norms: Floats
    roundoff: Floats
    numel: Floats
    longest: Floats
    rounded: Bools
    given: Floats


def row_facts(table: LeafTable, *, checksums: bool) -> RowFacts:
    """The facts of all rows of ``table``; ``checksums`` compares digests only."""
    role, kind = _roles(table), np.zeros(table.rows, np.int64)
    told = np.zeros(table.rows, np.bool_) if checksums else _numbers_differ(role, kind, table)
    told[_classify(table, kind, told, _digest_kind if checksums else None)] = not checksums
    rows = told.nonzero()[0]
    (left, left_absent), (right, right_absent) = statistics(table, rows)
    roundoff, numel, longest = properties(table, rows)
    kind[rows] = _gaps(kind[rows], (left, right), left_absent, right_absent, numel)
    finite = np.isfinite(left) & np.isfinite(right)
    left_known, right_known = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
    apart, size = np.abs(left_known - right_known), np.maximum(np.abs(left_known), np.abs(right_known))
    extremes, largest = apart[:, _ELEMENTS].max(axis=1), size[:, _ELEMENTS].max(axis=1)
    mean, norm = size[:, _MEANS].max(axis=1), size[:, _NORM]
    largest = np.where((largest == 0.0) & (norm == 0.0), mean, largest)  # a dump may hold means alone
    exact_integer_differences(table, rows, largest, extremes)
    parts = extremes, apart[:, _MEANS].max(axis=1), apart[:, _NORMS].max(axis=1), projections_apart(table, rows)
    return RowFacts(
        role=role,
        kind=kind,
        numeric=rows,
        apart=np.stack(parts, axis=1),
        size=np.stack((largest, norm), axis=1),
        norms=np.stack((left[:, _NORM], right[:, _NORM]), axis=1),
        roundoff=roundoff,
        numel=numel,
        longest=longest,
        rounded=rounded_to(left[:, _NORM], roundoff) & rounded_to(right[:, _NORM], roundoff),
        given=_given(table, role),
    )


def joined_facts(parts: Sequence[RowFacts]) -> RowFacts:
    """The facts of a table whose parts follow each other."""
    columns: dict[str, Any] = {
        one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(RowFacts)
    }
    before = np.cumsum([0, *(len(part.role) for part in parts)])[:-1].tolist()
    columns["numeric"] = np.concatenate([part.numeric + start for part, start in zip(parts, before, strict=True)])
    return RowFacts(**columns)


def _roles(table: LeafTable) -> Ints:
    role, result = _ROLES.get, int(Role.RESULT)
    return np.array(
        [role((t or g or _NOTHING)[1], result) for t, g in zip(table.target, table.golden, strict=True)], np.int64
    )


def _numbers_differ(role: Ints, kind: Ints, table: LeafTable) -> Bools:
    """Which ordinary rows (see ``FloatPairs``) have other statistics on the other side; sets their kinds."""
    pairs, found = table.float_pairs, np.zeros(table.rows, np.bool_)
    with np.errstate(invalid="ignore"):
        differ = (pairs.values[:, 0] != pairs.values[:, 1]).any(axis=1) & ~np.isnan(pairs.values).any(axis=(1, 2))
    rows, frames = pairs.rows[differ], pairs.frames[differ]
    by_frame = [
        [tensor_kind(Leaf("", slot, ours), ours, theirs) for ours, theirs in pairs.samples]
        for slot in (INPUT, PARAMETER)
    ]
    others, parameters = np.array(by_frame, np.int64).reshape(2, -1)
    kind[rows] = np.where(role[rows] == Role.PARAMETER, parameters[frames], others[frames])
    found[rows] = True
    return found


def _classify(table: LeafTable, kinds: Ints, told: Bools, digest: Callable[[Any, Any], RowKind] | None) -> list[int]:
    """Set the kinds that need no tolerance, but for rows already ``told``; returns the rows that hold statistics that
    are not equal."""
    numeric: list[int] = []
    target, golden = table.target, table.golden
    for row in (~told).nonzero()[0].tolist():
        t, g = target[row], golden[row]
        if t is None or g is None:
            kinds[row] = RowKind.MISSING_IN_TARGET if t is None else RowKind.MISSING_IN_GOLDEN
            continue
        ours, theirs = t[2], g[2]
        if ours == theirs and not (type(ours) is dict and "dtype" in ours and _unmeasured(ours)):
            continue
        if ours is None or theirs is None:
            lost = RowKind.MISSING_IN_TARGET if ours is None else RowKind.MISSING_IN_GOLDEN
            kinds[row] = RowKind.NONE if ours is theirs else lost
        elif is_tensor(ours) and is_tensor(theirs):
            kind = tensor_kind(t, ours, theirs)
            if digest is not None:
                kind = max(kind, digest(ours, theirs))
            else:
                numeric.append(row)
            if kind:
                kinds[row] = kind
        elif argument_differs(ours, theirs):
            kinds[row] = RowKind.ARGUMENT
    return numeric


def _unmeasured(raw: dict[str, Any]) -> bool:
    """Whether a tensor has no statistics, or in a dump without them no checksum."""
    return raw.get("Max", raw.get("md5")) is None


def tensor_kind(leaf: Leaf, ours: dict[str, Any], theirs: dict[str, Any]) -> RowKind:
    """What the descriptions of two tensors tell without their values."""
    if ours["shape"] != theirs["shape"]:
        return RowKind.SHAPE
    if ours["dtype"] != theirs["dtype"] and not same_dtype(str(ours["dtype"]), str(theirs["dtype"])):
        return RowKind.DTYPE
    if leaf.slot == PARAMETER and _flags_differ(ours.get("requires_grad"), theirs.get("requires_grad")):
        return RowKind.ARGUMENT
    return RowKind.NONE


def _flags_differ(left: Any, right: Any) -> bool:
    """MindSpore records no flag; what was not recorded is no difference."""
    return left is not None and right is not None and left != right


def _digest_kind(ours: dict[str, Any], theirs: dict[str, Any]) -> RowKind:
    left, right = ours.get("md5"), theirs.get("md5")
    if left is None and right is None:
        return RowKind.NONE if element_count(ours) == 0 else RowKind.UNCHECKED
    return RowKind.NONE if left == right else RowKind.VALUE


def _gaps(
    kinds: Ints,
    values: tuple[Floats, Floats],
    left_absent: NDArray[np.bool_],
    right_absent: NDArray[np.bool_],
    numel: Floats,
) -> Ints:
    """The kinds where statistics are missing or not finite on one side; ``kinds`` elsewhere."""
    left, right = values
    both = ~left_absent & ~right_absent
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | (np.isfinite(left) & np.isfinite(right))
    gap = (left_absent != right_absent).any(axis=1)
    nothing = left_absent.all(axis=1) & right_absent.all(axis=1) & (numel > 0)
    kinds = np.maximum(kinds, np.where(gap | nothing, RowKind.UNCHECKED, RowKind.NONE))
    lost = left_absent.all(axis=1) & ~right_absent.all(axis=1)
    extra = right_absent.all(axis=1) & ~left_absent.all(axis=1)
    kinds = np.where(lost, RowKind.MISSING_IN_TARGET, np.where(extra, RowKind.MISSING_IN_GOLDEN, kinds))
    return np.asarray(np.maximum(kinds, np.where((both & ~same).any(axis=1), RowKind.NON_FINITE, RowKind.NONE)))


def _given(table: LeafTable, role: Ints) -> Floats:
    backward = np.array([key.phase == Phase.BACKWARD.value for key in table.keys], np.bool_)
    return largest_inputs(table, backward, role == Role.INPUT)
