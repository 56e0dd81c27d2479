"""Gradients that cancel to zero, and what an optimizer makes of them.

The gradient of a bias is a sum over many terms. Where the sum is zero by mathematics (the bias of an attention key, a
bias before a norm), the recorded value is rounding noise, in which two correct runs have no digit in common. Its scale
is that of the terms. What is computed from it (its norm, the clipped gradient) is noise of the same scale, as long as
it is as small. An optimizer that divides by the size of the gradient (Adam) turns this noise into an update as large as
any other: the results of such an update cannot be judged.

Where a part of a gradient cancels (one bias for query, key and value), no statistic tells which elements these are.
Then the result of the division may differ by the size of the update, in single elements: mean and norm average over
them. So may a vector of parameters in the next step, when only modules were recorded and not the update.

A tensor is recognised in later calls by its statistics, a parameter in later steps by its name.

In the forward pass, what is left of two equal values is nothing but their rounding: ``a - b`` of two tensors that are
equal by mathematics (the probabilities of one policy, computed twice), or the mean of values that are centred, is as
far off as its operands are, and has no digit of its own. So its scale is at least that of the operands, where these
differ between the runs at all; of the same operands both runs make the same result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.differences.cancelled_gradients import (
    CancelledGradients,
    Fingerprint,
    in_model,
    is_vector,
    name_of_parameter,
)
from msprobe.compare.differences.row_facts import RowFacts
from msprobe.compare.differences.statistics_arrays import largest_input
from msprobe.compare.records.entries import CLIPPING, OPTIMIZER, function_of, has_state
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, Leaf, is_tensor
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.statistics import LARGEST, NORM, NORM_COLUMN, SMALLEST, STATISTIC_NAMES
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF
from msprobe.numerics.verdict import AMPLIFICATION, Bools, Floats, Measured, Role
from msprobe.trace.leaves import as_float

_CANCELLED = 1e-3  # the share of its terms below which a sum counts as nothing but rounding
_OPERANDS = 2.0
_LOST = 64.0 * FLOAT32_ROUNDOFF  # the share of other values below which these round a value away
_SQUARING = "addcmul"
_ADDING = ("sum", "mean", "add", "radd", "iadd", "sub", "rsub", "isub", "subtract")
_ROUNDINGS = 64.0  # of a coarse dtype: a sum of its values that is zero by mathematics is this share of its terms
_SOURCES = {"backward": 0, "parameters_grad": 1}  # the terms come in with the entry itself, or with its backward entry
ANYTHING = 1e6
"""How much elements that are nothing but rounding may differ, relative to the largest one: more than any do."""
_ELEMENTS = LARGEST.name, SMALLEST.name, "Mean"  # in units of the data
_UPDATES = 4.0  # of the size of an update: two of opposite signs, in a random share of the elements


def cancellation_scales(measured: Measured, table: LeafTable, facts: RowFacts, known: CancelledGradients) -> Floats:
    """Return for each numeric row of ``facts`` the smallest scale (a root mean square) that divides its difference.

    It is the size of the terms for a gradient that cancelled, inf for the result of an update from such a gradient, and
    0 elsewhere: there the own size of the tensor decides. ``measured.free`` is filled, ``known`` grows.
    """
    return _Cancellation(measured, table, facts, known).scales()


class _Cancellation:
    """Follows cancelled gradients through the rows of one step; arrays have one value per numeric row."""

    def __init__(self, measured: Measured, table: LeafTable, facts: RowFacts, known: CancelledGradients) -> None:
        self._measured, self._table, self._facts, self._known = measured, table, facts, known
        self._rows = facts.numeric
        self._norms = np.where(facts.norms[:, 0] == 0.0, facts.norms[:, 1], facts.norms[:, 0])
        self._entries = table.entry_of_row()[self._rows]
        self._result = measured.role[self._rows] == Role.RESULT
        self._rms = np.where(np.isfinite(facts.norms[:, 1]), facts.norms[:, 1], 0.0)
        self._rms = self._rms / np.sqrt(np.maximum(facts.numel, 1.0))
        self._share = max(_CANCELLED, _ROUNDINGS * float(measured.coarsest.max(initial=0.0)))
        self._updated = np.array([key.parent == OPTIMIZER for key in table.keys], np.bool_)[self._entries]
        self._inherited: dict[tuple[int, str], float] = {}
        self._moved: dict[tuple[int, str, float], float] = {}
        self._scales = np.zeros(0)

    def scales(self) -> Floats:
        self._scales = _sum_scales(self._measured, self._table, np.where(self._result, self._entries, -1), self._facts)
        np.maximum(self._scales, self._scales_of_lost_vectors(), out=self._scales)
        self._note_lost_gradients()
        self._free_parameters()
        self._free_divisions()
        cancelled = self._rms < self._share * self._scales
        if self._known.scales or self._known.moved or cancelled.any():
            self._follow(cancelled)
        self._free_updated()
        self._free_states()
        return np.maximum(self._scales, _scales_of_sums(self._table, self._facts))

    def _scales_of_lost_vectors(self) -> Floats:
        """Return the scales of vectors that a call gets beside values so much larger that these round them away: a mean
        that is zero by mathematics, a bias that only rounding has moved. 0 for other rows."""
        phases = np.array([key.phase == Phase.FORWARD.value and key.parent != OPTIMIZER for key in self._table.keys])
        roles = self._measured.role[self._rows]
        given = phases[self._entries] & ((roles == Role.INPUT) | (roles == Role.PARAMETER))
        size = self._facts.size[:, 1] / np.sqrt(np.maximum(self._facts.numel, 1.0))
        largest = np.zeros(len(self._table.keys))
        tensors = given & (self._facts.numel > self._facts.longest) & np.isfinite(size)
        np.maximum.at(largest, self._entries[tensors], size[tensors])
        beside = largest[self._entries]
        lost = given & (self._facts.numel == self._facts.longest) & (self._facts.size[:, 0] < _LOST * beside)
        return np.where(lost, beside, 0.0)

    def _note_lost_gradients(self) -> None:
        """Note the gradients that are so small beside those of usual size that they are the rounding of their sums,
        also where several passes have made them, or gradients of gradients: what an optimizer squares is a gradient,
        and what is clipped.
        """
        back = np.array([key.phase in (Phase.BACKWARD.value, "parameters_grad") for key in self._table.keys], np.bool_)
        sizes = self._rms[back[self._entries] & self._result]
        usual = float(np.median(sizes[sizes > 0.0])) if (sizes > 0.0).any() else 0.0
        small = self._facts.size[:, 0] < _LOST * usual
        keys = self._table.keys
        clips = np.array([key.parent == CLIPPING for key in keys], np.bool_)
        squares = np.array([key.parent == OPTIMIZER and _SQUARING in key.stem for key in keys], np.bool_)
        for entry in np.unique(self._entries[small & (clips | squares)[self._entries]]).tolist():
            leaves = map(self._leaf, self._table.rows_of(entry))
            inputs = {
                leaf.suffix: _fingerprint(leaf.raw)
                for leaf in leaves
                if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw)
            }
            for suffix, fingerprint in inputs.items():
                squared = suffix.startswith(".input.1") and inputs.get(suffix.replace("1", "2", 1)) == fingerprint
                if squared or clips[entry]:
                    self._lose(fingerprint, usual)

    def _lose(self, fingerprint: Fingerprint, usual: float) -> None:
        if 0.0 < float(fingerprint[NORM_COLUMN] or 0.0) < _LOST * usual:
            self._known.scales[fingerprint] = usual

    def _follow(self, cancelled: Bools) -> None:
        """Give cancelled gradients, and what is computed from them, their scales, in the order of execution."""
        known = self._known
        seeds = {float(one[NORM_COLUMN] or 0.0) for one in (*known.scales, *known.moved)}
        numbers = zip(
            self._norms.tolist(), self._entries.tolist(), self._result.tolist(), cancelled.tolist(), strict=True
        )
        active = -1
        for position, (norm, entry, result, own) in enumerate(numbers):
            if not (own or entry == active or norm in seeds):
                continue
            leaf = self._leaf(int(self._rows[position]))
            if leaf is None:
                continue
            fingerprint = _fingerprint(leaf.raw)
            if not result:
                if not self._take_up(position, leaf.suffix, fingerprint):
                    continue
                active = entry
            elif entry == active:
                self._pass_on(position, leaf.suffix, fingerprint)
                seeds.add(norm)
            if self._rms[position] < self._share * self._scales[position]:
                known.scales[fingerprint] = float(self._scales[position])
                seeds.add(norm)
                self._remember_parameter(entry, leaf.slot, leaf.suffix)

    def _leaf(self, row: int) -> Leaf | None:
        """Return what a tensor is recognised by: the target's values, or where these are zero, those of the golden run:
        rounding may also leave nothing."""
        target, golden = self._table.target[row], self._table.golden[row]
        is_zero = target is not None and is_tensor(target.raw) and target.raw.get(NORM.name) == 0.0
        return golden if is_zero and golden is not None and is_tensor(golden.raw) else target

    def _take_up(self, position: int, suffix: str, fingerprint: Fingerprint) -> bool:
        """Judge an input on the scale on which an earlier call left it; return whether it is noise."""
        free = self._measured.free
        row = int(self._rows[position])
        free[row] = max(free[row], self._known.moved.get(fingerprint, 0.0))
        scale = self._known.scales.get(fingerprint, 0.0)
        place = int(self._entries[position]), self._place(position, suffix)
        if free[row] and self._updated[position]:
            moved = (*place, float(self._facts.numel[position]))
            self._moved[moved] = free[row]
        if not scale:
            return bool(free[row])
        if math.isinf(scale) or self._updated[position]:
            self._inherited[place] = math.inf
        else:
            whole = scale * math.sqrt(max(float(self._facts.numel[position]), 1.0))
            self._inherited[place] = max(self._inherited.get(place, 0.0), whole)
        if math.isinf(scale) and not self._updated[position]:
            free[row] = ANYTHING
        else:
            self._scales[position] = math.inf if self._updated[position] else scale
        return True

    def _pass_on(self, position: int, suffix: str, fingerprint: Fingerprint) -> None:
        """Judge a result on the scale of a cancelled input of its call, where it is small as well."""
        place, row = (int(self._entries[position]), self._place(position, suffix)), int(self._rows[position])
        moved = self._moved.get((*place, float(self._facts.numel[position])), 0.0)
        if moved:
            self._measured.free[row] += moved
            self._known.moved[fingerprint] = float(self._measured.free[row])
        whole = self._inherited.get(place, 0.0)
        if math.isinf(whole):
            if self._updated[position]:
                self._scales[position] = math.inf
            return
        scale = whole / math.sqrt(max(float(self._facts.numel[position]), 1.0))
        if self._rms[position] < self._share * scale:
            self._scales[position] = max(self._scales[position], scale)

    def _place(self, position: int, suffix: str) -> str:
        """Return which item of the lists a value belongs to; "" in calls that take no lists of tensors."""
        stem = self._table.keys[int(self._entries[position])].stem
        return _last_part(suffix) if "_foreach_" in stem or "_fused_" in stem else ""

    def _remember_parameter(self, entry: int, slot: str, suffix: str) -> None:
        key = self._table.keys[entry]
        if key.phase == "parameters_grad":
            self._known.parameters.add((key.stem, _last_part(suffix)))

    def _free_parameters(self) -> None:
        """Let parameters differ as far as earlier updates from noise can have moved them."""
        known = self._known
        known.follow_parameters(self._table)
        if not (known.parameters or known.travelled or known.rounded_elsewhere):
            return
        roles = self._measured.role[self._rows]
        given = (roles == Role.INPUT) & (self._measured.origin[self._rows] < 0) & bool(known.extremes)
        for position in ((roles == Role.PARAMETER) | given).nonzero()[0].tolist():
            row = int(self._rows[position])
            leaf, key = self._table.target[row], self._table.keys[int(self._entries[position])]
            if leaf is None:
                continue
            name = name_of_parameter(key, leaf)
            size = max(float(self._facts.size[position, 0]), 1e-300)
            free = 0.0
            if (key.stem, _last_part(leaf.suffix)) in known.parameters:
                free = ANYTHING
            elif is_vector(leaf.raw):
                free = _UPDATES * known.travelled.get(name, 0.0) / size
            elsewhere = known.rounded_elsewhere.get(name)
            if elsewhere is not None:
                dtype = find_dtype(str(leaf.raw.get("dtype")))
                numel, rms = float(self._facts.numel[position]), float(self._rms[position])
                free = max(free, elsewhere.rounding(dtype) + elsewhere.without_squares(dtype, numel, rms))
                if elsewhere.loses_squares(dtype):
                    self._raise_coarsest()
            if free:
                self._measured.free[row] = known.moved[_fingerprint(leaf.raw)] = min(free, ANYTHING)

    def _free_updated(self) -> None:
        """Let parameters after a step of which each side has an own implementation differ as those of the next step."""
        names = {in_model(stem, name) for stem, name in self._known.parameters}
        rows = [row for row, name in self._table.updated.items() if name in names]
        self._measured.free[rows] = ANYTHING

    def _free_states(self) -> None:
        """Let what a norm with running statistics gets differ as far as a bias before it, whose gradient cancels, may
        have moved: they follow the bias, and the results show all else."""
        travelled = (self._known.travelled.get(in_model(*one), 0.0) for one in self._known.parameters)
        moved = _UPDATES * max(travelled, default=0.0)
        states = np.array([moved > 0.0 and has_state(key) for key in self._table.keys], np.bool_)
        inputs = self._measured.role[self._rows] == Role.INPUT
        for row in self._rows[states[self._entries] & inputs].tolist():
            target, golden = self._table.tensors(row)
            apart = (abs(as_float(target.get(name)) - as_float(golden.get(name))) for name in _ELEMENTS)
            if max(apart) <= moved:
                self._measured.free[row] = ANYTHING

    def _raise_coarsest(self) -> None:
        """Judge all coarse values like those of 8 bits: as far as that, parameters may agree of which the squares of
        gradients were zero on one side."""
        from msprobe.compare.differences.other_updates import WITHOUT_SQUARES  # after updates by other calls only

        coarsest = self._measured.coarsest
        np.maximum(coarsest, WITHOUT_SQUARES, out=coarsest, where=coarsest > FLOAT32_ROUNDOFF)

    def _free_divisions(self) -> None:
        """Let the results of a division by the size of a gradient differ in single elements by the size of the
        update."""
        of_updates = (OPTIMIZER, "")  # a dump without modules has no parents
        keys = self._table.keys
        divides = np.array([key.parent in of_updates and "addcdiv" in key.stem for key in keys], np.bool_)
        for position in (divides[self._entries] & self._result).nonzero()[0].tolist():
            entry = int(self._entries[position])
            row = int(self._rows[position])
            leaf = self._table.target[row]
            update = 0.0 if leaf is None else _size_of_update(self._table, entry, leaf.suffix)
            if leaf is not None and update:
                free = min(_UPDATES * update / max(float(self._facts.size[position, 0]), 1e-300), ANYTHING)
                self._measured.free[row] = self._known.moved[_fingerprint(leaf.raw)] = free


def _size_of_update(table: LeafTable, entry: int, suffix: str) -> float:
    """Return the root mean square of what ``addcdiv`` adds, in data units; 0 where the records do not say it.

    ``suffix`` is that of the result.
    """
    leaves = [table.golden[row] for row in table.rows_of(entry)]
    inputs = {leaf.suffix: leaf.raw for leaf in leaves if leaf is not None and leaf.slot == INPUT}
    item = f".{_last_part(suffix)}" if "_foreach_" in table.keys[entry].stem else ""
    names = (f".input.3{item}", ".input.3", ".input.value")
    value = next((inputs[name] for name in names if name in inputs), None)
    value = value.get("value") if isinstance(value, dict) else value
    added, divisor = (inputs.get(f".input.{number}{item}") for number in (1, 2))
    try:
        return abs(float(value)) * float(added[NORM.name]) / float(divisor[NORM.name])  # type: ignore[arg-type, index]
    except (TypeError, KeyError, ValueError, ZeroDivisionError):
        return 0.0


def _last_part(suffix: str) -> str:
    return suffix.rpartition(".")[2]


def _fingerprint(raw: Any) -> Fingerprint:
    """Return what recognises a tensor in later calls: its statistics, in table order."""
    return tuple([raw.get(name) for name in STATISTIC_NAMES])


def _sum_scales(measured: Measured, table: LeafTable, entries: NDArray[np.int64], facts: RowFacts) -> Floats:
    """Return the scale of the terms of each gradient; 0 for other values.

    ``entries`` has the entry of each result, and -1 for a row that is no result.
    """
    source = np.array([_SOURCES.get(key.phase, -1) for key in table.keys], np.int64)
    source = np.where(source == 1, measured.depends, np.where(source == 0, np.arange(len(source)), -1))
    source_of_row = np.where(entries >= 0, source[entries], -1)
    inputs = np.concatenate((facts.largest_inputs, [[0.0, 0.0]]))
    for number in np.unique(source_of_row[np.isnan(inputs[source_of_row, 0])]).tolist():
        inputs[number] = largest_input(table, number)
    rms, count = inputs[source_of_row].T
    terms = count / np.maximum(facts.numel, 1.0)
    return np.where((terms > 1.0) & (facts.numel > 0.0), rms * np.sqrt(np.maximum(terms, 0.0)), 0.0)


def _scales_of_sums(table: LeafTable, facts: RowFacts) -> Floats:
    """Return the scale (a root mean square, in data units) of each numeric row of ``facts`` that is the result of a
    forward sum or mean of values that differ; 0 for other rows. ``AMPLIFICATION`` allows for terms a bit larger."""
    functions = {stem: function_of(stem) for stem in {key.stem for key in table.keys}}
    if not any(function in _ADDING for function in functions.values()):
        return np.zeros(len(facts.numeric))
    made = [functions[key.stem] if key.phase == Phase.FORWARD.value else "" for key in table.keys]
    entries, inputs = table.entry_of_row()[facts.numeric], facts.role[facts.numeric] == Role.INPUT
    adds, sums, means = (np.array([one in names for one in made])[entries] for names in (_ADDING, ("sum",), ("mean",)))
    differing, operands, counts = np.zeros(len(made), np.bool_), np.zeros(len(made)), np.zeros(len(made))
    differing[entries[inputs & (facts.apart > 0.0).any(axis=1)]] = True
    rms = facts.size[:, 1] / np.sqrt(np.maximum(facts.numel, 1.0))
    np.maximum.at(operands, entries[inputs], np.where(np.isfinite(rms), rms, 0.0)[inputs])
    np.maximum.at(counts, entries[inputs], facts.numel[inputs])
    growth = np.sqrt(np.maximum(counts[entries] / np.maximum(facts.numel, 1.0), 1.0)) ** (sums.astype(float) - means)
    is_result = adds & differing[entries] & (facts.role[facts.numeric] == Role.RESULT)
    return np.where(is_result, _OPERANDS / AMPLIFICATION * operands[entries] * growth, 0.0)
