"""The precisions in which two runs compute, as the results of their matrix products have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from msprobe.compare.records.entries import is_module, phase_of, stem_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase, is_product
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, Leaf, is_tensor, leaves
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Bools
from msprobe.trace.leaves import element_count, is_shape
from msprobe.trace.moves import moves_of

_BYTE = 2.0**-8
"""The round-off of a number in a byte, relative to the largest one."""


def coarser_precision(table: LeafTable) -> float:
    """Return the unit round-off of the coarser precision where the runs compute in two, 0 where they do not.

    Most matrix products of one run have results of another floating-point dtype than most of the other one, or most
    parameters (autocast, beside a model that was converted). Then a dtype is how a run was configured; where few calls
    have another one, it is what is wrong with them.
    """
    if other_formats(table) is None and not table.alone:
        return 0.0
    forward = [key.phase == Phase.FORWARD.value for key in table.keys]
    rows = [row for entry in (products(table) & forward).nonzero()[0].tolist() for row in table.rows_of(entry)]
    of_products = [_usual_format(map(one.__getitem__, rows), OUTPUT) for one in (table.target, table.golden)]
    of_parameters = (_usual_format(one, PARAMETER) for one in (table.target, table.golden))
    return _coarser(*of_products) or _coarser(*of_parameters)


def _coarser(target: float, golden: float) -> float:
    return max(target, golden) if target != golden and min(target, golden) > 0.0 else 0.0


def stored_precision(target: Dump, golden: Dump) -> float:
    """Return the unit round-off of the format of one byte in which one run alone stores weights, or multiplies, 0 where
    none does: this is quantisation by design, beyond which a layer has to stand out."""
    stored = _stored(target, golden), _stored(golden, target)
    return max(stored) if 0.0 in stored else 0.0


def _stored(dump: Dump, other: Dump) -> float:
    """Return the coarsest format of what a run converts from bytes: integers in the place of matrices that it lacks,
    and the other run has among its parameters (others are data), or numbers as many as half of its matrices hold."""
    converted = list(_from_bytes(dump))
    own = _elements_of_matrices(dump) if converted else 0.0
    lacking = _elements_of_matrices(other) - own if converted else 0.0
    multiplied = 2.0 * sum(size for size, roundoff in converted if roundoff) >= own
    by_design = (roundoff or _BYTE for size, roundoff in converted if size <= lacking or (multiplied and roundoff))
    return max(by_design, default=0.0)


def _from_bytes(dump: Dump) -> Iterator[tuple[int, float]]:
    """Yield the size of each matrix that a run converts from a format of one byte, and the round-off of that format, 0
    for integers."""
    for move in moves_of(dump, ()) if dump.header.get("moves") else ():
        source, made = map(find_dtype, move.cast) if move.cast else (None, None)
        if source is None or made is None or not made.unit_roundoff:
            continue
        if source.itemsize == 1 and source.kind is not DtypeKind.BOOL:
            sizes = (prod(place.shape) for place in move.made if len(place.shape) > 1)
            yield from ((size, source.unit_roundoff) for size in sizes)


def _elements_of_matrices(dump: Dump) -> float:
    forward = ((name, body) for name, body in dump.data.items() if phase_of(name) == Phase.FORWARD.value)
    modules = {stem_of(name): body for name, body in forward if "parameters" in body}
    parameters = (leaf.raw for name, body in modules.items() for leaf in leaves(name, body) if leaf.slot == PARAMETER)
    shapes = ((raw, raw["shape"]) for raw in parameters if is_tensor(raw))
    return sum(element_count(raw) for raw, shape in shapes if is_shape(shape) and len(shape) > 1)


def _usual_format(leaves: Iterable[Leaf | None], slot: str) -> float:
    """Return the unit round-off of most tensors in a slot among these leaves, 0 for none."""
    tensors = (leaf.raw for leaf in leaves if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw))
    counts = Counter(unit_roundoff(str(raw["dtype"])) for raw in tensors)
    return max(counts, key=counts.__getitem__, default=0.0)


def other_formats(table: LeafTable) -> tuple[str, str] | None:
    """Return the dtypes of the first tensor that has another floating-point dtype than in the other run, of target and
    golden run; None where no tensor has."""
    samples = table.float_pairs.kind_samples
    return next(((str(a["dtype"]), str(b["dtype"])) for a, b in samples if _formats_differ(a, b)), None)


def _formats_differ(target: Mapping[str, Any], golden: Mapping[str, Any]) -> bool:
    """Return whether two tensors are numbers of two floating-point formats."""
    left, right = (unit_roundoff(str(raw["dtype"])) for raw in (target, golden))
    return left != right and min(left, right) > 0.0


def products(table: LeafTable) -> Bools:
    """Return which entries are calls of functions and modules that multiply matrices.

    Their name tells it, or of a module without recorded calls inside that it gets numbers and has a matrix.
    """
    with_calls = {key.parent for key in table.keys}
    stems = {key.stem: is_product(key.stem) for key in table.keys}
    for number, key in enumerate(table.keys):
        if not stems[key.stem] and is_module(key) and key.stem not in with_calls:
            stems[key.stem] = _gets_numbers_and_has_matrix(table, number)
    return np.array([stems[key.stem] for key in table.keys], np.bool_)


def _gets_numbers_and_has_matrix(table: LeafTable, entry: int) -> bool:
    leaves = [leaf for row in table.rows_of(entry) if (leaf := table.golden[row]) is not None and is_tensor(leaf.raw)]
    slots = {slot: [leaf.raw for leaf in leaves if leaf.slot == slot] for slot in (INPUT, PARAMETER)}
    numbers = [raw for raw in slots[INPUT] if unit_roundoff(str(raw["dtype"])) > 0.0]
    shapes = [raw["shape"] for raw in slots[PARAMETER] if isinstance(raw["shape"], list)]
    return bool(numbers) and any(len(shape) > 1 for shape in shapes)
