"""The coarsest number format that the values of each call have passed.

A residual sum of bfloat16 and float32 is float32, but carries the rounding of bfloat16; so does the result of a module
that computes in bfloat16 inside. ``own_coarsest`` says for each entry which format its tensors have, and
``coarsest_passed`` adds what lies inside of modules, and what the forward call of a backward call computed in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from msprobe.compare.table.precisions import products
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, unit_roundoff
from msprobe.numerics.verdict import Bools, Floats, Ints, Measured, Role

ROUNDOFFS = {"tf32": 2.0 * 2.0**-11, "hf32": 2.0 * 2.0**-12}
"""The round-off of products in a precision: both operands are rounded, to 10 and 11 bits of mantissa."""


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """What is known about number formats beside the recorded dtypes: the user says it, or the runs compute in two
    precisions (see ``table.precisions``).

    Attributes:
        products: the unit round-off of the operands of products; 0 where the dtype tells it.
        ignore_dtype: compare values of different floating-point dtypes.
    """

    products: float = 0.0
    ignore_dtype: bool = False

    @classmethod
    def of(cls, precision: str | None, *, ignore_dtype: bool) -> NumberFormats:
        """Return the formats for a name in ``ROUNDOFFS``, or None."""
        return cls(ROUNDOFFS[precision] if precision else 0.0, ignore_dtype)

    def coarser(self, products: float) -> NumberFormats:
        """Return these formats where products are no finer than ``products`` (a unit round-off)."""
        return replace(self, products=max(self.products, products))

    @property
    def differ(self) -> bool:
        """Return whether both sides are meant to compute in different formats."""
        return self.ignore_dtype or self.products > 0.0


AS_RECORDED = NumberFormats()


def own_coarsest(table: LeafTable, formats: NumberFormats = AS_RECORDED) -> Floats:
    """Return for each entry the largest unit round-off among the dtypes of its tensors, or of products, and at least
    that of float32.

    Of two dtypes the finer one counts: what one side alone computes in a coarse dtype may differ only where ``formats``
    allows it.
    """
    result = np.full(len(table.entries), FLOAT32_ROUNDOFF)
    pairs = table.float_pairs
    of_both = max if formats.ignore_dtype else min
    by_kind = np.array([of_both(unit_roundoff(str(one["dtype"])) for one in both) for both in pairs.kind_samples])
    coarse = by_kind > FLOAT32_ROUNDOFF
    if coarse.any():
        selected = coarse[pairs.kinds]
        entry = np.searchsorted(table.starts, pairs.rows[selected], side="right") - 1
        np.maximum.at(result, entry, by_kind[pairs.kinds[selected]])
    if formats.products:
        of_products = products(table)
        result[of_products] = np.maximum(result[of_products], formats.products)
    return result


def raise_where_rounded(coarsest: Floats, table: LeafTable, names: frozenset[str]) -> None:
    """Raise the round-off of calls that round to a few bits inside to that of bfloat16: what differs in its last digit
    is rounded the other way in single elements alone, so that the step of a format of eight bits would hide faults."""
    for number, pair in enumerate(table.entries if names else ()):
        if pair.target in names and pair.golden in names:
            coarsest[number] = max(coarsest[number], unit_roundoff("torch.bfloat16"))


def coarsest_passed(table: LeafTable, own: Floats, depends: Ints) -> Floats:
    """Return the unit round-off of the coarsest dtype in each entry, in the calls inside of it, and in the call that it
    depends on.

    Args:
        table: the paired leaves; a module stands behind the calls inside of it.
        own: the result of ``own_coarsest``.
        depends: the entry that each entry depends on, or -1.
    """
    if not (own > FLOAT32_ROUNDOFF).any():
        return own
    result, inside = own.tolist(), dict[str, float]()
    for number, key in enumerate(table.keys):
        roundoff = max(result[number], inside.get(key.stem, 0.0))
        if depends[number] >= 0:
            roundoff = max(roundoff, result[depends[number]])
        if roundoff > FLOAT32_ROUNDOFF:
            result[number] = roundoff
            if key.parent and inside.get(key.parent, 0.0) < roundoff:
                inside[key.parent] = roundoff
    return np.array(result)


def raise_to_passed(measured: Measured, table: LeafTable, before: float) -> float:
    """Raise the round-off of each row to that of the coarsest dtype that its value has passed.

    ``roundoff`` of a result becomes that of its call, ``passed`` that of any call so far that differs. Integers stay
    exact, and parameters that no step can have updated yet are judged as float32: they have passed no computation. Of
    those that one side has in another dtype, the coarser one decides. But one element may be rounded the other way: the
    random numbers of another machine differ by their last digit, before they are rounded to 16 bits.

    Args:
        measured: the differences of all rows; it is changed.
        table: the paired leaves.
        before: the coarsest dtype of the steps before that differed; 0 for none.

    Returns:
        the coarsest dtype so far of a call that differs.
    """
    entry, coarsest, own = table.entry_of_row(), measured.coarsest, measured.roundoff
    differing = np.zeros(len(coarsest), np.bool_)
    differing[entry[measured.worst > 0.0]] = True
    so_far = np.maximum.accumulate(np.concatenate(([before], np.where(differing, coarsest, 0.0))))
    measured.passed = own
    if max(so_far[-1], own.max(initial=0.0), coarsest.max(initial=0.0)) > FLOAT32_ROUNDOFF:
        in_call = coarsest.copy()
        np.maximum.at(in_call, entry, own)
        of_call = np.where(measured.role == Role.RESULT, in_call[entry], own)
        measured.roundoff = np.where(own > 0.0, of_call, 0.0)
        measured.passed = np.where(own > 0.0, np.maximum(of_call, so_far[entry]), 0.0)
    if before == 0.0:
        fresh, converted = _fresh_parameters(measured, table)
        measured.fresh[fresh] = True
        passed = np.where(converted, own, np.minimum(own, FLOAT32_ROUNDOFF))
        measured.passed = np.where(fresh, passed, measured.passed)
        one_element = 2.0 * own / np.sqrt(np.maximum(measured.numel, 1.0))
        measured.inexact = np.where(fresh & (own > FLOAT32_ROUNDOFF), one_element, measured.inexact)
    return float(so_far[-1])


def _fresh_parameters(measured: Measured, table: LeafTable) -> tuple[Bools, Bools]:
    """Return which rows are parameters before any backward call, and which of them have two dtypes."""
    first = next((number for number, key in enumerate(table.keys) if key.phase != "forward"), len(table.keys))
    result: Bools = np.asarray(measured.role == Role.PARAMETER)
    result[int(table.starts[first]) :] = False
    converted = np.zeros_like(result)
    for row in (result & (measured.roundoff > FLOAT32_ROUNDOFF)).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        result[row] = target is not None and golden is not None
        converted[row] = result[row] and target.raw["dtype"] != golden.raw["dtype"]
    return result, converted


def enclosing(table: LeafTable) -> Ints:
    """Return for each entry the entry of the module around it, which stands behind it; -1 where there is none."""
    result, behind = np.full(len(table.keys), -1, np.int64), dict[tuple[str, str], int]()
    for number in range(len(table.keys) - 1, -1, -1):
        key = table.keys[number]
        behind[key.stem, key.phase] = number
        if key.parent:
            result[number] = behind.get((key.parent, key.phase), -1)
    return result
