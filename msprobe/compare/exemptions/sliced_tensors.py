"""Tensors of which the user compares a part: ``--target-slice``, ``--golden-slice`` (see ``compare.inputs.slices``).

Both sides of a pair are cut before anything is measured. Parameters stay whole, also where a function is given one. So
does an axis that only one side is to cut, and that is as long on the other side. Of the ways to cut a pair (both sides,
one of them) the first one that makes shapes agree is taken; where none does, the tensors stay as they are and differ in
shape.

The statistics of a part come from the file of the tensor (task ``tensor``). Statistics of the whole say nothing about
a part: without a file such a pair is not judged, and a note counts it. A length that a part has in place of the whole
is no difference where it is an argument (``view(8, 17)`` against ``view(1, 17)``).

Where the rows of a request are compared, its part of each tensor follows from the recorded batch
(``requests.request_tensors``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.inputs.slices import WHOLE, TensorSlices, sliced_shape
from msprobe.compare.table.table import LeafTable, PartialTensors, Ranges, RowRanges
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.host import cpu_count
from msprobe.core.store.record_walk import INPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.projection import KEY, projection
from msprobe.core.tensors.statistics import STATISTIC_NAMES, set_statistics
from msprobe.numerics.verdict import Ints, Measured, RowKind
from msprobe.trace.leaves import data_name, is_shape, row_name

if TYPE_CHECKING:
    from msprobe.compare.requests.request_tensors import RequestTensors
    from msprobe.compare.requests.token_axes import TokenAxes

_MOST_WORKERS = 8
_WHOLE = (PARAMETER, PARAMETER_GRAD)
"""Slots of tensors that have no rows of a batch."""


class SlicedTensors(Exemption):
    """Compares the chosen part of each tensor."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the chosen parts.

        Raises:
            NotComparableError: checksums are compared.
        """
        if not any(dumps.slices) and dumps.request is None:
            return table
        if dumps.mode is Mode.CHECKSUM:
            raise NotComparableError("a slice of a tensor has no checksum; collect both runs with task tensor")
        whole = _parameters(table)
        request = None if dumps.request is None else _request_part(table, dumps, dumps.request, whole)
        ranges: Mapping[int, RowRanges] = (
            request.ranges
            if request is not None
            else {
                row: found
                for row in range(table.row_count)
                if row not in whole and (found := _ranges(table, row, dumps.slices))
            }
        )
        sides = [list(table.target), list(table.golden)]
        folders = dumps.target.tensor_folder, dumps.golden.tensor_folder
        from concurrent.futures import ThreadPoolExecutor  # most comparisons cut nothing

        with ThreadPoolExecutor(min(_MOST_WORKERS, cpu_count())) as pool:
            made = pool.map(lambda row: _parts(table, row, ranges[row], folders), ranges)
            parts = dict(zip(ranges, made, strict=True))
        lengths: set[tuple[int, int]] = set()
        for row, pair in parts.items():
            lengths.update(_other_lengths(table, row))
            for side, leaf in enumerate(pair):
                sides[side][row] = leaf
        unknown = frozenset(row for row, pair in parts.items() if any(map(_has_no_numbers, pair)))
        if request is not None:
            unknown |= request.unclear | request.apart
            lengths.update(request.lengths)
        partial = PartialTensors(ranges, unknown, frozenset(lengths), request)
        return replace(table, target=sides[0], golden=sides[1], partial=partial)

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kind of arguments that are lengths of a whole and of its part."""
        if table.partial is None or not table.partial.lengths:
            return
        for row in (kinds == RowKind.ARGUMENT).nonzero()[0].tolist():
            target, golden = table.target[row], table.golden[row]
            if target is not None and golden is not None and _told_by(table.partial.lengths, target.raw, golden.raw):
                kinds[row] = RowKind.NONE

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of parts without numbers, and those that may differ with reason."""
        if table.partial is None:
            return ()
        if table.partial.request is None:
            return sorted(table.partial.unknown)
        table.partial.request.excuse(table, measured)
        return sorted(table.partial.unknown | table.partial.request.excused)

    def remarks(self, table: LeafTable) -> list[str]:
        """Return a sentence about how many tensors were compared in part."""
        if table.partial is None:
            return []
        if table.partial.request is not None:
            return table.partial.request.remarks(table, table.partial.unknown)
        count = len(table.partial.ranges) - len(table.partial.unknown)
        if not table.partial.ranges:
            return ["no tensor has an axis that the slices fit: all were compared whole"]
        return [f"{count} tensors were compared in the chosen slice, the others whole"] if count else []


def _request_part(table: LeafTable, dumps: ComparedDumps, axes: TokenAxes, whole: set[int]) -> RequestTensors:
    from msprobe.compare.requests.request_tensors import request_part  # only where a request is compared

    return request_part(table, axes, whole, (dumps.target.tensor_folder, dumps.golden.tensor_folder))


def lost_parts(table: LeafTable) -> list[str]:
    """Return a sentence about the tensors whose part has no numbers because only their statistics were recorded, and
    those about rows of a request that could not be found."""
    if table.partial is None:
        return []
    request = table.partial.request
    unknown = table.partial.unknown - (request.unclear | request.apart if request is not None else frozenset())
    rows = [row for row in sorted(unknown) if _has_no_file(table, row)]
    lost = [] if request is None else request.lost(table)
    if not rows:
        return lost
    leaf, entry = table.golden[rows[0]], table.entries[table.entries_of(rows[:1])[0]]
    name = entry.name if leaf is None else row_name(entry.golden or "", leaf)
    lost.append(
        f"{len(rows)} tensors were not compared: a slice needs whole tensors, and these have statistics only (first: "
        f"{name}); collect with task tensor, or give slice in the configuration"
    )
    return lost


def _has_no_file(table: LeafTable, row: int) -> bool:
    pair = table.target[row], table.golden[row]
    return any(leaf is not None and _has_no_numbers(leaf) and data_name(leaf.raw) is None for leaf in pair)


def _parameters(table: LeafTable) -> set[int]:
    """Return the rows of parameters, and of inputs that have the shape and the statistics of one."""
    parameters = {_fingerprint(leaf) for leaf in table.golden if leaf is not None and leaf.slot == PARAMETER}
    return {
        row
        for row, leaf in enumerate(table.golden)
        if leaf is not None and (leaf.slot in _WHOLE or (leaf.slot == INPUT and _fingerprint(leaf) in parameters))
    }


def _fingerprint(leaf: Leaf) -> tuple[str, ...]:
    values = leaf.raw if isinstance(leaf.raw, dict) else {}
    return tuple(str(values.get(name)) for name in ("shape", *STATISTIC_NAMES, KEY))


def _ranges(table: LeafTable, row: int, slices: tuple[TensorSlices | None, TensorSlices | None]) -> RowRanges | None:
    """Return what to take of both sides of a row; None where the pair stays whole."""
    target, golden = table.target[row], table.golden[row]
    if target is None or golden is None or row in table.together:
        return None
    shapes = _shape(target), _shape(golden)
    if shapes[0] is None or shapes[1] is None:
        return None
    left, right = ((one or WHOLE).of(shape) for one, shape in zip(slices, shapes, strict=True))  # type: ignore[arg-type]
    left, right = _where_needed(left, right, (shapes[0], shapes[1]))
    for choice in ((left, right), (left, None), (None, right)):
        taken = [
            shape if ranges is None else sliced_shape(ranges) for shape, ranges in zip(shapes, choice, strict=True)
        ]
        if any(choice) and _long(taken[0] or ()) == _long(taken[1] or ()):
            return choice
    return None


def _where_needed(
    left: Ranges | None, right: Ranges | None, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> RowRanges:
    """Return the ranges of both sides without those that one side alone has of an axis as long as that of the other."""
    if len(shapes[0]) != len(shapes[1]):
        return left, right
    cut = [
        [own is not None and own[axis] != slice(0, shape[axis]) for axis in range(len(shape))]
        for own, shape in zip((left, right), shapes, strict=True)
    ]
    kept = [
        None
        if own is None
        else tuple(
            slice(0, length) if length == shapes[1 - side][axis] and not cut[1 - side][axis] else own[axis]
            for axis, length in enumerate(shapes[side])
        )
        for side, own in enumerate((left, right))
    ]
    whole = [ranges is None or sliced_shape(ranges) == shape for ranges, shape in zip(kept, shapes, strict=True)]
    return None if whole[0] else kept[0], None if whole[1] else kept[1]


def _shape(leaf: Leaf) -> tuple[int, ...] | None:
    if not is_tensor(leaf.raw) or not is_shape(leaf.raw["shape"]):
        return None
    return tuple(leaf.raw["shape"])


def _long(shape: tuple[int, ...]) -> list[int]:
    return [length for length in shape if length != 1]


def _parts(table: LeafTable, row: int, ranges: RowRanges, folders: tuple[Path, Path]) -> tuple[Leaf, Leaf]:
    """Return the leaves of both sides with the shape and the statistics of the part."""
    leaves = table.target[row], table.golden[row]
    parts = [
        leaf if own is None else leaf._replace(raw=_part(leaf.raw, own, folder))  # type: ignore[union-attr]
        for leaf, own, folder in zip(leaves, ranges, folders, strict=True)
    ]
    target, golden = parts
    assert target is not None and golden is not None  # a pair
    if target.raw["shape"] != golden.raw["shape"]:  # axes of length 1 tell nothing
        target = target._replace(raw={**target.raw, "shape": golden.raw["shape"]})
    return target, golden


def _part(raw: Mapping[str, Any], ranges: Ranges, folder: Path) -> dict[str, Any]:
    """Return the record of a part: without statistics where the tensor has no readable file."""
    part = {name: value for name, value in raw.items() if name not in (*STATISTIC_NAMES, KEY, "md5")}
    part["shape"] = list(sliced_shape(ranges))
    name = data_name(raw)
    if name is None or Path(name).name != name:
        return part
    from msprobe.core.store.tensor_reader import read_tensor  # loads zip files

    try:
        array = read_tensor(folder / name)
    except ReadError:
        return part  # the comparison of the files says so
    if list(array.shape) != raw["shape"]:
        return part
    array = array[ranges]
    set_statistics(part, statistics(array, precision="high"))
    if KEY in raw and array.dtype.kind in "fiu":
        part[KEY] = projection(array)
    return part


def _has_no_numbers(leaf: Leaf) -> bool:
    return all(leaf.raw.get(name) is None for name in STATISTIC_NAMES)


def _other_lengths(table: LeafTable, row: int) -> set[tuple[int, int]]:
    """Return the lengths of both sides of a row, axis by axis, where they differ."""
    target, golden = table.target[row], table.golden[row]
    shapes = () if target is None or golden is None else (target.raw["shape"], golden.raw["shape"])
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]):
        return set()
    return {(left, right) for left, right in zip(*shapes, strict=True) if left != right}


def _told_by(lengths: frozenset[tuple[int, int]], target: Any, golden: Any) -> bool:
    """Return whether two arguments differ in such lengths only, or in products of them with what is equal."""
    values = [side["value"] if isinstance(side, dict) and "value" in side else side for side in (target, golden)]
    if isinstance(values[0], list) and isinstance(values[1], list):
        pairs = list(zip(*values, strict=False))
        return len(values[0]) == len(values[1]) and all(
            left == right or _told_by(lengths, left, right) for left, right in pairs
        )
    if any(type(value) is not int or value < 1 for value in values):
        return False
    left, right = values
    return (left, right) in lengths or any(
        left * two == right * one and left % one == 0 and right % two == 0 for one, two in lengths if one and two
    )
