"""What each row of a table says by itself: its role, its kind, and differences in units of the data.

``row_facts`` looks at no other entry. So the parts of a table can be handled by several processes, and
``joined_facts`` puts their results together. ``argument_differs`` compares arguments that are no tensors: numbers up to
rounding, devices by kind, dtypes by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.differences.coarsest import AS_RECORDED, NumberFormats, own_coarsest
from msprobe.compare.differences.row_remarks import (
    UNJUDGED,
    Remark,
    of_checksums,
    of_plain_rows,
    of_records,
    of_statistics,
)
from msprobe.compare.differences.statistics_arrays import (
    exact_integer_differences,
    largest_inputs,
    projections_apart,
    properties,
    statistics,
)
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import (
    INPUT,
    OF_ONE_PROCESS,
    PARAMETER,
    Leaf,
    damage_of,
    form_damage,
    has_no_values,
    is_tensor,
)
from msprobe.core.tensors.dtypes import ALL_DTYPES, find_dtype, same_dtype
from msprobe.core.tensors.statistics import LARGEST, NORM_COLUMN, ToleranceOf, columns_of
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, rounded_to, unit_roundoff
from msprobe.numerics.verdict import Bools, Floats, Ints, Role, RowKind
from msprobe.trace.leaves import COPIES_DIFFER, NOT_ADDED, PIECES, as_float, element_count
from msprobe.trace.likeness import same_record

_IGNORED = OF_ONE_PROCESS | {"group_id", "requires_grad"}
_DEVICE_TYPES = ("cpu", "cuda", "npu", "meta", "mps", "xpu")
_SCALAR_NOISE = 4e-6
_MAX = LARGEST.name
_WITHOUT_VALUES = int(Remark.WITHOUT_VALUES)
_FARTHEST = {dtype.largest for dtype in ALL_DTYPES if dtype.itemsize > 1 and math.isfinite(dtype.largest)}
_SMALL = 2.0**-13  # above it no 16-bit float has lost digits


_OF_PIECES = {COPIES_DIFFER: RowKind.COPIES_DIFFER, NOT_ADDED: RowKind.NOT_ADDED}

_NOTHING = Leaf("", "", None)
_ELEMENTS, _MEANS, _NORMS = map(columns_of, (ToleranceOf.ELEMENT, ToleranceOf.MEAN, ToleranceOf.NORM))
_ROLES = {INPUT: int(Role.INPUT), PARAMETER: int(Role.PARAMETER)}


@dataclass(slots=True)
class RowFacts:
    """The facts of all rows. A numeric row is one that is measured by its statistics.

    Attributes:
        role: a ``Role`` per row.
        kind: a ``RowKind`` per row, as far as it needs no tolerance.
        numeric: the numbers of the numeric rows, ascending.
        apart: shape (numeric rows, 4), in units of the data: the largest difference of the statistics of elements, of
            means and of norms, and the difference of the projection.
        size: shape (numeric rows, 2), in units of the data: the larger side's largest element and its norm.
        norms: shape (numeric rows, 2), in units of the data: the norms of target and golden.
        roundoff: the unit round-off of the golden dtype, one value per numeric row, as the next three.
        numel: the number of elements of the golden tensor.
        longest: the length of the longest axis of the golden tensor.
        rounded: whether the statistics were rounded to the dtype, or the values of one side to another dtype.
        largest_inputs: shape (entries, 2): root mean square (units of the data) and element count of the largest input
            of each backward entry; NaN for other entries.
        remarks: what is to be said of each row, flags of ``Remark``.
        coarsest: the unit round-off of the coarsest dtype of each entry.
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
    largest_inputs: Floats
    remarks: Ints
    coarsest: Floats


def row_facts(table: LeafTable, *, checksums: bool, formats: NumberFormats = AS_RECORDED) -> RowFacts:
    """Return the facts of all rows of ``table``; ``checksums`` compares digests only. ``formats`` says what is
    known about number formats."""
    role, kind, remarks = _roles(table), np.zeros(table.row_count, np.int64), np.zeros(table.row_count, np.int64)
    of_plain_rows(table, remarks)
    numeric = np.zeros(table.row_count, np.bool_) if checksums else _differing_floats(role, kind, table)
    numeric[_classify(table, (kind, remarks), numeric, checksums=checksums)] = not checksums
    rows = numeric.nonzero()[0]
    (left, left_absent), (right, right_absent) = statistics(table, rows)
    roundoff, numel, longest = properties(table, rows)
    other = np.zeros(len(rows))
    if formats.ignore_dtype:
        other = _allow_other_floats(table, kind, rows)
        roundoff = np.maximum(roundoff, other)
    remarks[rows] |= of_statistics((left, right), (left_absent, right_absent), numel)
    projections = projections_apart(table, rows)
    remarks[rows[projections.one_sided]] |= int(Remark.ORDER_UNSEEN)
    kind[rows] = _gaps(kind[rows], (left, right), left_absent | right_absent, remarks[rows])
    kind[rows[projections.odd]] = np.maximum(kind[rows[projections.odd]], RowKind.NON_FINITE)
    finite = np.isfinite(left) & np.isfinite(right)
    target, golden = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
    apart, size = np.abs(target - golden), np.maximum(np.abs(target), np.abs(golden))
    extremes, largest = apart[:, _ELEMENTS].max(axis=1), size[:, _ELEMENTS].max(axis=1)
    mean, norm = size[:, _MEANS].max(axis=1), size[:, NORM_COLUMN]
    largest = np.where((largest == 0.0) & (norm == 0.0), mean, largest)  # a dump may hold means alone
    exact_integer_differences(table, rows, largest, extremes)
    parts = extremes, apart[:, _MEANS].max(axis=1), apart[:, _NORMS].max(axis=1), projections.difference
    return RowFacts(
        role=role,
        kind=kind,
        numeric=rows,
        apart=np.stack(parts, axis=1),
        size=np.stack((largest, norm), axis=1),
        norms=np.stack((left[:, NORM_COLUMN], right[:, NORM_COLUMN]), axis=1),
        roundoff=_of_small_numbers(table, rows, roundoff, largest),
        numel=numel,
        longest=longest,
        rounded=rounded_to(left[:, NORM_COLUMN], roundoff) & rounded_to(right[:, NORM_COLUMN], roundoff)
        | (other > 0.0),
        largest_inputs=_largest_inputs(table, role),
        remarks=remarks,
        coarsest=own_coarsest(table, formats),
    )


def _allow_other_floats(table: LeafTable, kinds: Ints, rows: Ints) -> Floats:
    """Return the unit round-off of the target's dtype for each of ``rows``, and allow other floating-point dtypes, also
    in arguments that name one, or are a number of it. ``kinds`` is changed."""
    own, coarsest = np.zeros(len(rows)), _coarsest_of_all(table)
    position = {row: place for place, row in enumerate(rows.tolist())}
    for row in np.isin(kinds, (int(RowKind.DTYPE), int(RowKind.ARGUMENT))).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is None or golden is None:
            continue
        name = "dtype" if kinds[row] == RowKind.DTYPE else "value"
        names = [leaf.raw.get(name) if isinstance(leaf.raw, dict) else None for leaf in (target, golden)]
        left, right = (unit_roundoff(str(one)) for one in names)
        if left and right:
            kinds[row] = RowKind.NONE
            if row in position:
                own[position[row]] = left
        elif kinds[row] == RowKind.ARGUMENT and _is_same_rounded(names[0], names[1], coarsest):
            kinds[row] = RowKind.NONE
    return own


def _coarsest_of_all(table: LeafTable) -> float:
    """Return the unit round-off of the coarsest floating-point dtype that either side has."""
    samples = table.float_pairs.kind_samples
    return max((unit_roundoff(str(raw["dtype"])) for both in samples for raw in both), default=0.0)


def _is_same_rounded(left: Any, right: Any, roundoff: float) -> bool:
    """Return whether two numbers are one in a coarse dtype, or each is the farthest number of a dtype: what a mask adds
    where nothing is to be seen."""
    if type(left) is not float or type(right) is not float:
        return False
    return math.isclose(left, right, rel_tol=2.0 * roundoff) or (
        left * right > 0.0 and {abs(left), abs(right)} <= _FARTHEST
    )


def _of_small_numbers(table: LeafTable, rows: Ints, roundoff: Floats, largest: Floats) -> Floats:
    """Return the round-off relative to the largest element: more than ``roundoff`` where all elements of a coarse dtype
    are so small that its finest step decides (float16 below 6e-5). ``largest`` is in units of the data.
    """
    result = roundoff
    for position in ((roundoff > FLOAT32_ROUNDOFF) & (largest < _SMALL) & (largest > 0.0)).nonzero()[0].tolist():
        golden = table.golden[rows[position]]
        dtype = None if golden is None else find_dtype(str(golden.raw.get("dtype", "")))
        if dtype is not None and dtype.finest > 2.0 * roundoff[position] * largest[position]:
            result = roundoff.copy() if result is roundoff else result
            result[position] = min(dtype.finest / 2.0 / largest[position], 0.5)
    return result


def joined_facts(parts: Sequence[RowFacts]) -> RowFacts:
    """Return the facts of a table from those of its parts, which follow each other."""
    columns: dict[str, Any] = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(RowFacts)
    }
    before = np.cumsum([0, *(len(part.role) for part in parts)])[:-1].tolist()
    columns["numeric"] = np.concatenate([part.numeric + start for part, start in zip(parts, before, strict=True)])
    return RowFacts(**columns)


def _roles(table: LeafTable) -> Ints:
    role, result = _ROLES.get, int(Role.RESULT)
    return np.array(
        [role((t or g or _NOTHING)[1], result) for t, g in zip(table.target, table.golden, strict=True)], np.int64
    )


def _differing_floats(role: Ints, kind: Ints, table: LeafTable) -> Bools:
    """Return which plain rows (see ``FloatPairs``) have different statistics on both sides, and set their kinds."""
    pairs, result = table.float_pairs, np.zeros(table.row_count, np.bool_)
    with np.errstate(invalid="ignore"):
        differ = (pairs.values[:, 0] != pairs.values[:, 1]).any(axis=1) & ~np.isnan(pairs.values).any(axis=(1, 2))
    rows, tensor_kinds = pairs.rows[differ], pairs.kinds[differ]
    by_frame = [
        [tensor_kind(Leaf("", slot, target), target, golden) for target, golden in pairs.kind_samples]
        for slot in (INPUT, PARAMETER)
    ]
    others, parameters = np.array(by_frame, np.int64).reshape(2, -1)
    kind[rows] = np.where(role[rows] == Role.PARAMETER, parameters[tensor_kinds], others[tensor_kinds])
    result[rows] = True
    return result


def _classify(table: LeafTable, result: tuple[Ints, Ints], known: Bools, *, checksums: bool) -> list[int]:
    """Set kinds and remarks of rows that are not ``known``, as far as they need no tolerance.

    Return the rows with two tensors whose statistics are not equal. ``checksums`` compares digests instead, and
    arguments exactly.
    """
    kinds, remarks = result
    numeric: list[int] = []
    targets, goldens = table.target, table.golden
    plain = np.zeros(table.row_count, np.bool_)
    plain[table.float_pairs.rows] = not checksums
    is_plain = plain.tolist()
    for row in (~known).nonzero()[0].tolist():
        leaf, golden_leaf = targets[row], goldens[row]
        if leaf is None or golden_leaf is None:
            kinds[row] = RowKind.MISSING_IN_TARGET if leaf is None else RowKind.MISSING_IN_GOLDEN
            continue
        target, golden = leaf[2], golden_leaf[2]
        same = same_record(target, golden)
        if same and (is_plain[row] or type(target) is not dict or not _needs_look(target, checksums)):
            continue
        if target is None or golden is None:
            missing = RowKind.MISSING_IN_TARGET if target is None else RowKind.MISSING_IN_GOLDEN
            kinds[row] = RowKind.NONE if target is golden else missing
        elif is_tensor(target) and is_tensor(golden):
            kinds[row], remark = _of_tensors(leaf, target, golden, checksums=checksums)
            remarks[row] |= remark
            if not checksums and not (same and remark & _WITHOUT_VALUES):
                numeric.append(row)
        elif argument_differs(target, golden, exact=checksums):
            kinds[row] = RowKind.ARGUMENT
    return numeric


def _of_tensors(leaf: Leaf, target: Any, golden: Any, *, checksums: bool) -> tuple[RowKind, int]:
    """Return the kind and the remarks of two tensors, as far as they need no tolerance."""
    remark, kind = of_records(target, golden), tensor_kind(leaf, target, golden)
    if not checksums or (remark & _WITHOUT_VALUES and same_record(target, golden)):
        return kind, remark
    remark |= of_checksums(target, golden, element_count(target))
    return max(kind, _digest_kind(target, golden, remark)), remark


def _needs_look(raw: dict[str, Any], exact: bool) -> bool:
    """Return whether an object that equals its partner may still differ, or holds no values: a tensor without numbers
    or with damaged ones, and where arguments are compared exactly a zero, whose sign does not show in an equality."""
    if "dtype" in raw:
        return raw.get(_MAX, raw.get("md5")) is None or has_no_values(raw) or damage_of(raw) != ""
    return exact and raw.get("value") == 0.0


def tensor_kind(leaf: Leaf, target: dict[str, Any], golden: dict[str, Any]) -> RowKind:
    """Return what the descriptions of two tensors say without their values; ``leaf`` tells the slot."""
    pieces = target.get(PIECES), golden.get(PIECES)
    if pieces[0] != pieces[1]:
        return _OF_PIECES[str(pieces[0] or pieces[1])]
    if target["shape"] != golden["shape"]:
        return RowKind.NONE if form_damage(target) or form_damage(golden) else RowKind.SHAPE
    if target["dtype"] != golden["dtype"] and not same_dtype(str(target["dtype"]), str(golden["dtype"])):
        return RowKind.NONE if form_damage(target) or form_damage(golden) else RowKind.DTYPE
    if leaf.slot == PARAMETER and _flags_differ(target.get("requires_grad"), golden.get("requires_grad")):
        return RowKind.ARGUMENT
    return RowKind.NONE


def _flags_differ(left: Any, right: Any) -> bool:
    """Return whether two recorded flags differ; MindSpore records none, and that is no difference."""
    return left is not None and right is not None and left != right


def _digest_kind(target: dict[str, Any], golden: dict[str, Any], remark: int) -> RowKind:
    if remark & UNJUDGED:
        return RowKind.UNCHECKED
    left, right = target.get("md5"), golden.get("md5")
    if left is None or right is None:
        return RowKind.NONE  # without elements a checksum says nothing
    return RowKind.NONE if left == right else RowKind.VALUE


def _gaps(kinds: Ints, values: tuple[Floats, Floats], absent: NDArray[np.bool_], remarks: Ints) -> Ints:
    """Return the kinds of rows whose statistics are missing or not finite on one side, and ``kinds`` for other rows.

    ``values`` and ``absent``, which says that a side lacks the statistic, have shape (rows, statistics).
    """
    left, right = values
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | (np.isfinite(left) & np.isfinite(right))
    kinds = np.maximum(kinds, np.where(remarks & UNJUDGED, RowKind.UNCHECKED, RowKind.NONE))
    return np.asarray(np.maximum(kinds, np.where((~absent & ~same).any(axis=1), RowKind.NON_FINITE, RowKind.NONE)))


def _largest_inputs(table: LeafTable, role: Ints) -> Floats:
    phase = Phase.BACKWARD.value
    backward = np.array([key.phase == phase for key in table.keys], np.bool_)
    return largest_inputs(table, backward, role == Role.INPUT)


def argument_differs(target: Any, golden: Any, *, exact: bool = False) -> bool:
    """Return whether two recorded arguments, neither of them a pair of tensors, differ; ``exact`` allows numbers no
    rounding."""
    if type(target) is dict and type(golden) is dict:
        if _is_same_dtype(target.get("value"), golden.get("value")):
            return False
        if target.get("type") != golden.get("type"):
            return not _is_same_number(target, golden)
        left = {key: value for key, value in target.items() if key not in _IGNORED}
        right = {key: value for key, value in golden.items() if key not in _IGNORED}
        return left.keys() != right.keys() or any(_value_differs(left[key], right[key], exact) for key in left)
    return _value_differs(target, golden, exact)


def _is_same_number(target: dict[str, Any], golden: dict[str, Any]) -> bool:
    """Return whether two arguments are one number, an integer on one side alone, or a tensor of one element: 2, 2.0 and
    ``torch.tensor(2.0)``."""
    own, other = _number_of(target), _number_of(golden)
    if own is None or other is None:
        return False
    if math.isinf(as_float(own)) or math.isinf(as_float(other)):  # also of integers beyond float64
        return own == other
    return math.isclose(own, other, rel_tol=_SCALAR_NOISE if is_tensor(target) or is_tensor(golden) else 0.0)


def _number_of(raw: dict[str, Any]) -> float | None:
    """Return the number that an argument is; None where it is none."""
    if is_tensor(raw):
        value = raw.get(_MAX) if element_count(raw) == 1 else None
    else:
        value = raw.get("value") if raw.get("type") in ("int", "float") else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _value_differs(left: Any, right: Any, exact: bool) -> bool:
    if type(left) is float and type(right) is float:
        if left != left or right != right:
            return not (left != left and right != right)
        if exact:
            return left.hex() != right.hex()
        return not math.isclose(left, right, rel_tol=_SCALAR_NOISE)
    if type(left) is str and type(right) is str and left.split(":")[0] in _DEVICE_TYPES:
        return right.split(":")[0] not in _DEVICE_TYPES
    return type(left) is not type(right) or bool(left != right)


def _is_same_dtype(left: Any, right: Any) -> bool:
    """Return whether two arguments name one dtype in different words, such as ``Float32`` and ``torch.float32``."""
    return type(left) is str and type(right) is str and left != right and same_dtype(left, right)
