"""Functions that one framework computes less exactly on one kind of device than the dtype promises.

``INEXACT`` is the table of measured facts. They hold where the headers say that the kernels of the two sides differ and
one side is in the table; two runs on the same kernels have the same errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msprobe.compare.records.entries import EntryKey, is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT
from msprobe.core.tensors.dtypes import same_dtype
from msprobe.numerics.verdict import Measured, Role
from msprobe.trace.leaves import as_float

_FLOAT32 = "float32"
_LARGEST_EXPONENT = 89.0  # of larger numbers the function is infinite, 0 or 1 in float32


class Inexact(NamedTuple):
    """How far results are from exact ones; errors are relative to the largest element of the result.

    Attributes:
        functions: matches the last part of the name of a function or module, in lower case.
        element: the error of an element.
        average: the error of mean and norm.
        by_size: how much both grow with the largest input, by its size.
        above: the size of the largest input from which on the errors are as large; below they are those of float32.
        phase: of calls that go ``forward`` or ``backward``.
    """

    functions: re.Pattern[str]
    element: float
    average: float
    by_size: float = 0.0
    above: float = 0.0
    phase: str = "forward"


INEXACT: Mapping[str, tuple[Inexact, ...]] = {
    # MindSpore 2.10, 400,000 numbers in [-85, 85] each against float64; float16 and float64 are exact up to rounding.
    "mindspore CPU": (
        Inexact(re.compile(r"exp_?"), element=4e-6, average=4e-6, by_size=3e-7),
        Inexact(re.compile(r"tanh_?|tanhshrink"), element=1.05e-4, average=5e-5, above=2.5),
        Inexact(re.compile(r"tanh_?|tanhshrink"), element=2.1e-4, average=1e-5, phase="backward"),
        Inexact(re.compile(r"rnn|rnncell|gru|grucell"), element=2e-4, average=3e-5),  # tanh in each step
        Inexact(re.compile(r"mish"), element=8.5e-4, average=1.5e-4, phase="backward"),
        Inexact(re.compile(r"erf_?|elu_?"), element=2.5e-6, average=2.5e-6, phase="backward"),
        Inexact(re.compile(r"sigmoid_?|silu|swish|logsigmoid|glu"), element=3e-6, average=3e-6),
        Inexact(re.compile(r"softmax|softmax2d|softmin|logsoftmax|log_softmax|logsumexp"), element=2e-6, average=2e-6),
    ),
}
"""By framework and device, as ``Kernels`` names them."""
_HIDDEN = Inexact(re.compile(""), element=8e-6, average=8e-6)
"""A module of the program's own, without records of what it calls: it may compute an ``exp``."""
_OF_FRAMEWORKS = re.compile(
    r"linear|dense|conv|norm|embedding|relu|elu|pool|dropout|flatten|identity|sequential|list|loss|lstm|gru|rnn|pad|"
    r"upsample|hardtanh|hardswish|hardsigmoid|threshold"
)


def add_known_errors(measured: Measured, table: LeafTable) -> None:
    """Let results of inexact functions differ by the known errors: ``measured.inexact`` and ``free`` are raised."""
    facts = [fact for name in sorted(table.kernels) for fact in INEXACT.get(name, ())]
    if not facts:
        return
    worst = measured.worst
    recorded_inside = {key.parent for key in table.keys if not is_module(key)}
    for number, key in enumerate(table.keys):
        fact = _fact_of(key, facts, recorded_inside)
        rows = table.rows_of(number)
        if fact is None or not worst[rows.start : rows.stop].any():
            continue
        size = max(map(_size, (table.golden[row].raw for row in rows if _is_input(table, row))), default=0.0)  # type: ignore[union-attr]
        if size < fact.above:
            continue
        for row in rows:
            leaf = table.golden[row]
            if leaf is None or measured.role[row] != Role.RESULT or not _is_float32(leaf.raw):
                continue
            measured.inexact[row] = fact.average + fact.by_size * size
            measured.free[row] = max(measured.free[row], fact.element + fact.by_size * size)


def _fact_of(key: EntryKey, facts: Iterable[Inexact], recorded_inside: set[str]) -> Inexact | None:
    name = key.stem.rpartition(".")[2].lower()
    known = next((fact for fact in facts if fact.phase == key.phase and fact.functions.fullmatch(name)), None)
    if known is not None or not is_module(key) or key.phase != _HIDDEN.phase:
        return known
    return None if key.stem in recorded_inside or _OF_FRAMEWORKS.search(name) else _HIDDEN


def _is_input(table: LeafTable, row: int) -> bool:
    leaf = table.golden[row]
    return leaf is not None and leaf.slot == INPUT and isinstance(leaf.raw, dict)


def _size(raw: Mapping[str, Any]) -> float:
    """Return the size of the largest finite extreme of a recorded tensor, in units of the data; 0 where none is."""
    sizes = [abs(as_float(raw.get(name))) for name in ("Max", "Min")]
    return max((min(size, _LARGEST_EXPONENT) for size in sizes if math.isfinite(size)), default=0.0)


def _is_float32(raw: Any) -> bool:
    return isinstance(raw, dict) and same_dtype(str(raw.get("dtype", "")), _FLOAT32)
