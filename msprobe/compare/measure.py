"""Numbers for every row of a table: how far the two leaves are apart, before any tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.arguments import argument_differs
from msprobe.compare.dependencies import dependencies
from msprobe.compare.items import INPUT, PARAMETER, Leaf, element_count, is_tensor
from msprobe.compare.loose import loosen
from msprobe.compare.natural_scale import Vanished, natural_scales
from msprobe.compare.order import projections_apart
from msprobe.compare.recorded import properties, statistics
from msprobe.compare.table import LeafTable
from msprobe.compare.uninitialised import uninitialised
from msprobe.core.tensors.dtypes import same_dtype
from msprobe.numerics.tolerance import rounded_to, unit_roundoff
from msprobe.numerics.verdict import Floats, Kind, Measured, Role

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

Difference: TypeAlias = "TensorDifference | None"
_NOTHING = Leaf("", "", None)
_ROLES = {INPUT: int(Role.INPUT), PARAMETER: int(Role.PARAMETER)}


def measure(
    table: LeafTable,
    *,
    checksums: bool,
    tensors: Sequence[Difference] | None = None,
    vanished: Vanished | None = None,
) -> Measured:
    """Measure all rows. ``checksums`` compares digests only; ``tensors`` holds whole-tensor differences by row.

    ``vanished`` is what ``natural_scales`` learned in the steps before; it grows.
    """
    rows = table.rows
    kinds = np.zeros(rows, np.int64)
    measured = Measured(
        role=_roles(table),
        kind=kinds,
        element=np.zeros(rows),
        mean=np.zeros(rows),
        norm=np.zeros(rows),
        projection=np.zeros(rows),
        roundoff=np.full(rows, 2.0**-24),
        numel=np.ones(rows),
        reduction=np.ones(rows),
        rounded=np.zeros(rows, np.bool_),
        whole=np.zeros(rows, np.bool_),
        row_starts=table.starts,
        depends=dependencies(table),
    )
    told = np.zeros(rows, np.bool_) if checksums else _numbers_differ(measured, table)
    numeric = _classify(table, kinds, told, _digest_kind if checksums else None)
    floors = np.zeros(rows)
    told[numeric] = True
    if not checksums and told.any():
        at = told.nonzero()[0]
        floors[at] = _fill_statistics(measured, table, at, {} if vanished is None else vanished)
    if table.loose:
        loosen(table, kinds)
    if tensors is not None:
        _fill_tensors(measured, table, tensors, floors)
    _excuse(measured, table, uninitialised(table, measured.role))
    return measured


def _excuse(measured: Measured, table: LeafTable, rows: list[int]) -> None:
    """What nobody has written cannot be checked."""
    for values in (measured.element, measured.mean, measured.norm, measured.projection):
        values[rows] = 0.0
    for row in rows:
        ours, theirs = table.target[row], table.golden[row]
        kind = Kind.NONE if ours is None or theirs is None else _tensor_kind(theirs, ours.raw, theirs.raw)
        measured.kind[row] = kind or Kind.UNINITIALISED


def _roles(table: LeafTable) -> NDArray[np.int64]:
    role, result = _ROLES.get, int(Role.RESULT)
    return np.array(
        [role((t or g or _NOTHING)[1], result) for t, g in zip(table.target, table.golden, strict=True)], np.int64
    )


def _numbers_differ(measured: Measured, table: LeafTable) -> NDArray[np.bool_]:
    """Which ordinary rows (see ``FloatPairs``) have other statistics on the other side; sets their kinds."""
    pairs, found = table.float_pairs, np.zeros(table.rows, np.bool_)
    with np.errstate(invalid="ignore"):
        apart = (pairs.values[:, :4] != pairs.values[:, 4:]).any(axis=1) & ~np.isnan(pairs.values).any(axis=1)
    rows, frames = pairs.rows[apart], pairs.frames[apart]
    by_frame = [
        [_tensor_kind(Leaf("", slot, ours), ours, theirs) for ours, theirs in pairs.samples]
        for slot in (INPUT, PARAMETER)
    ]
    others, parameters = np.array(by_frame, np.int64).reshape(2, -1)
    measured.kind[rows] = np.where(measured.role[rows] == Role.PARAMETER, parameters[frames], others[frames])
    found[rows] = True
    return found


def _classify(
    table: LeafTable,
    kinds: NDArray[np.int64],
    told: NDArray[np.bool_],
    digest: Callable[[Any, Any], Kind] | None,
) -> list[int]:
    """Set the kinds that need no tolerance, but for rows already ``told``; returns the rows that hold statistics that
    are not equal."""
    numeric: list[int] = []
    target, golden = table.target, table.golden
    for row in (~told).nonzero()[0].tolist():
        t, g = target[row], golden[row]
        if t is None or g is None:
            kinds[row] = Kind.MISSING_IN_TARGET if t is None else Kind.MISSING_IN_GOLDEN
            continue
        ours, theirs = t[2], g[2]
        if ours == theirs and not (type(ours) is dict and "dtype" in ours and _unmeasured(ours)):
            continue
        if ours is None or theirs is None:
            lost = Kind.MISSING_IN_TARGET if ours is None else Kind.MISSING_IN_GOLDEN
            kinds[row] = Kind.NONE if ours is theirs else lost
        elif is_tensor(ours) and is_tensor(theirs):
            kind = _tensor_kind(t, ours, theirs)
            if digest is not None:
                kind = max(kind, digest(ours, theirs))
            else:
                numeric.append(row)
            if kind:
                kinds[row] = kind
        elif argument_differs(ours, theirs):
            kinds[row] = Kind.ARGUMENT
    return numeric


def _unmeasured(raw: dict[str, Any]) -> bool:
    """Whether a tensor has no statistics, or in a dump without them no checksum."""
    return raw.get("Max", raw.get("md5")) is None


def _tensor_kind(leaf: Leaf, ours: dict[str, Any], theirs: dict[str, Any]) -> Kind:
    if ours["shape"] != theirs["shape"]:
        return Kind.SHAPE
    if ours["dtype"] != theirs["dtype"] and not same_dtype(str(ours["dtype"]), str(theirs["dtype"])):
        return Kind.DTYPE
    if leaf.slot == PARAMETER and _flags_differ(ours.get("requires_grad"), theirs.get("requires_grad")):
        return Kind.ARGUMENT
    return Kind.NONE


def _flags_differ(left: Any, right: Any) -> bool:
    """MindSpore records no flag; what was not recorded is no difference."""
    return left is not None and right is not None and left != right


def _digest_kind(ours: dict[str, Any], theirs: dict[str, Any]) -> Kind:
    left, right = ours.get("md5"), theirs.get("md5")
    if left is None and right is None:
        return Kind.NONE if element_count(ours) == 0 else Kind.UNCHECKED
    return Kind.NONE if left == right else Kind.VALUE


def _fill_statistics(measured: Measured, table: LeafTable, rows: NDArray[np.int64], vanished: Vanished) -> Floats:
    """Measure these rows by their statistics; returns the least root mean square each is judged by."""
    (left, left_absent), (right, right_absent) = statistics(table, rows)
    roundoff, numel, longest = properties(table, rows)
    measured.roundoff[rows] = roundoff
    measured.numel[rows] = numel
    _note_gaps(measured, rows, (left, right), left_absent, right_absent, numel)
    finite = np.isfinite(left) & np.isfinite(right)
    apart = np.where(finite, np.abs(np.where(finite, left, 0.0) - np.where(finite, right, 0.0)), 0.0)
    size = np.where(finite, np.maximum(np.abs(left), np.abs(right)), 0.0)
    largest = np.maximum(size[:, 0], size[:, 1])
    floor = natural_scales(measured, table, rows, (left[:, 3], right[:, 3]), vanished)
    rms = np.where(size[:, 3] > 0.0, size[:, 3] / np.sqrt(np.maximum(numel, 1.0)), largest)
    measured.element[rows] = _ratio(np.maximum(apart[:, 0], apart[:, 1]), np.maximum(largest, floor))
    measured.mean[rows] = _ratio(apart[:, 2], np.maximum(rms, floor))
    measured.norm[rows] = _ratio(apart[:, 3], np.maximum(size[:, 3], floor * np.sqrt(np.maximum(numel, 1.0))))
    measured.projection[rows] = _ratio(
        projections_apart(table, rows), np.maximum(largest, floor) * np.sqrt(np.maximum(numel, 1.0))
    )
    measured.reduction[rows] = _reductions(table, rows, longest, numel)
    measured.rounded[rows] = rounded_to(left[:, 3], roundoff) & rounded_to(right[:, 3], roundoff)
    return floor


def _ratio(difference: Floats, scale: Floats) -> Floats:
    return np.where(difference == 0.0, 0.0, difference / np.where(scale > 0.0, scale, 1e-300))


def _note_gaps(
    measured: Measured,
    rows: NDArray[np.int64],
    values: tuple[Floats, Floats],
    left_absent: NDArray[np.bool_],
    right_absent: NDArray[np.bool_],
    numel: Floats,
) -> None:
    """Kinds for statistics that are missing or not finite on one side."""
    left, right = values
    both = ~left_absent & ~right_absent
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | (np.isfinite(left) & np.isfinite(right))
    kinds = measured.kind[rows]
    gap = (left_absent != right_absent).any(axis=1)
    nothing = left_absent.all(axis=1) & right_absent.all(axis=1) & (numel > 0)
    kinds = np.maximum(kinds, np.where(gap | nothing, Kind.UNCHECKED, Kind.NONE))
    lost = left_absent.all(axis=1) & ~right_absent.all(axis=1)
    extra = right_absent.all(axis=1) & ~left_absent.all(axis=1)
    kinds = np.where(lost, Kind.MISSING_IN_TARGET, np.where(extra, Kind.MISSING_IN_GOLDEN, kinds))
    measured.kind[rows] = np.maximum(kinds, np.where((both & ~same).any(axis=1), Kind.NON_FINITE, Kind.NONE))


def _reductions(table: LeafTable, rows: NDArray[np.int64], longest: Floats, numel: Floats) -> Floats:
    """A guess at the number of terms behind each element: the longest axis or the elements given per element made."""
    entry = table.entry_of_row()
    given = np.zeros(len(table.entries))
    axis = np.ones(len(table.entries))
    np.maximum.at(given, entry[rows], numel)
    np.maximum.at(axis, entry[rows], longest)
    return np.asarray(np.maximum(axis[entry[rows]], given[entry[rows]] / np.maximum(numel, 1.0)))


def _fill_tensors(measured: Measured, table: LeafTable, tensors: Sequence[Difference], floors: Floats) -> None:
    for row, difference in enumerate(tensors):
        if difference is None:
            continue
        if difference.non_finite:
            measured.kind[row] = Kind.NON_FINITE
        if math.isnan(difference.relative_norm):
            if measured.kind[row] <= Kind.UNCHECKED:
                measured.kind[row] = Kind.UNCHECKED
            continue
        if difference.calibrated and measured.kind[row] == Kind.SHAPE:
            measured.kind[row] = Kind.NONE  # the products have one shape
        leaf = table.golden[row]
        raw = leaf.raw if leaf is not None else {}
        measured.roundoff[row] = unit_roundoff(str(raw.get("dtype", "")))
        count = element_count(raw)
        measured.element[row] = difference.relative_max * _share(difference.largest, floors[row])
        measured.norm[row] = difference.relative_norm * _share(difference.norm, floors[row] * math.sqrt(count))
        measured.mean[row] = measured.projection[row] = 0.0
        measured.whole[row] = True
        measured.numel[row] = count
        if measured.kind[row] == Kind.UNCHECKED:
            measured.kind[row] = Kind.NONE


def _share(own: float, floor: float) -> float:
    """Turns a difference relative to ``own`` into one relative to the larger of both scales."""
    return own / floor if floor > own else 1.0
