"""Differences without consequence: calls of both sides differ, and what leaves the step agrees.

Two versions of one computation have other values in between: scores that are scaled before or after a product, a mask
of -1e9 or of minus infinity. What counts is what leaves the step (``verdict.sinks``). These differences are none of it:

- A call that gets the same and returns something else, where neither run has what the other one makes of it, and
  another argument of a function whose tensors agree: their effect may be below rounding in this step only.
- Infinity or NaN of one side alone; minus infinity may be a mask.
- The running statistics of a norm, and a buffer that a call writes in place where no gradients are recorded: they are
  state, and no result shows them.

The calls of an optimizer, and of gradient clipping, may come in another order (``regions.parameter_order``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.records.call_modes import is_without_gradients
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import (
    OF_PARAMETERS,
    OPTIMIZER,
    has_state,
    is_module,
    parents_of,
    path_of,
    stem_of,
)
from msprobe.compare.records.in_place_updates import changes_temporary, works_in_place
from msprobe.compare.records.optimizer_steps import optimizer_steps
from msprobe.compare.regions.parameter_order import ParameterOrder
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sinks import MUCH_CLOSER, Sinks
from msprobe.compare.verdict.step_end import StepEnd
from msprobe.core.naming.names import Phase
from msprobe.core.naming.parser import split_entry
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, is_tensor
from msprobe.core.tensors.statistics import LARGEST, SMALLEST, STATISTIC_NAMES
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF
from msprobe.numerics.verdict import Floats, Judged, Measured, Role, RowKind
from msprobe.trace.leaves import as_float
from msprobe.trace.likeness import EXACT, MASKED, is_boolean, is_float, same_values

_OTHER_FORMS = RowKind.SHAPE, RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN
"""What differs where layers are fused, split or padded."""
_RUNNING_MEAN = ".input.1", ".input.running_mean"
"""Where a norm gets the running mean, in the order of its arguments or by name."""
_NOT_RETURNED = RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN


class HarmlessDifferences:
    """Finds the entries of both sides that differ without consequence.

    Args:
        table: both dumps.
        dumps: the dumps that it was made of.
        measured: the roles of all rows.
        judged: the verdicts of all rows.

    Attributes:
        end: what leaves the step.
    """

    def __init__(
        self,
        table: LeafTable,
        dumps: ComparedDumps,
        measured: Measured,
        judged: Judged,
    ) -> None:
        self._table, self._dumps = table, (dumps.target, dumps.golden)
        self._construct, self._data = dumps.target.construct, dumps.target.data
        self.end = StepEnd(table, self._dumps, measured, judged, dumps.next_agrees)
        self._measured, self._role, self._kind, self._tolerance = measured, measured.role, judged.kind, judged.tolerance

    @cached_property
    def entries(self) -> frozenset[int]:
        """The calls for parameters that come in another order, and modules of which nothing but the form of a mask
        differs. No gradient goes to a mask: the results show all that it does."""
        return frozenset(entry for entry in self.differing if self._is_harmless(entry))

    def _is_harmless(self, entry: int) -> bool:
        key = self._table.keys[entry]
        if key.parent in OF_PARAMETERS:
            return self._order.is_another(entry)
        results = list(self._results(entry))
        compared = bool(results) and all(self._kind[row] != RowKind.UNCHECKED for row in results)
        rows = self._differing_rows_of(entry)
        return compared and is_module(key) and all(is_other_mask(self._table, row, self._kind[row]) for row in rows)

    @cached_property
    def differing(self) -> list[int]:
        """The entries of both sides that differ, ascending."""
        rows = (self._kind > RowKind.UNCHECKED).nonzero()[0]
        return [number for number in self._table.entries_of(rows) if self._table.entries[number].of_both]

    @cached_property
    def turned(self) -> frozenset[int]:
        """The calls that get the tensors of the other run in another order and return the same (``x + h``), and those
        that give them their gradients."""
        forward = frozenset(entry for entry in self.differing if self._is_turned(entry, Role.INPUT))
        backward = (self._backward_of(entry) for entry in forward)
        return forward.union(one for one in backward if one is not None and self._is_turned(one, Role.RESULT))

    def _is_turned(self, entry: int, role: Role) -> bool:
        """Return whether all that differs in a call are values of one role, each of which the other side has in another
        place of the call."""
        rows = self._table.rows_of(entry)
        differing = [row for row in rows if self._kind[row] > RowKind.UNCHECKED]
        if any(self._role[row] != role or self._kind[row] != RowKind.VALUE for row in differing):
            return False
        pairs = {row: self._table.tensors(row) for row in rows if self._role[row] == role and self._is_tensor(row)}
        others = ([pairs[other] for other in pairs if other != row] for row in differing)
        return all(
            any(same_values(pairs[row][0], other[-1]) and same_values(pairs[row][-1], other[0]) for other in one)
            for row, one in zip(differing, others, strict=True)
        )

    @cached_property
    def _differing_rows(self) -> NDArray[np.int64]:
        """The rows that differ, ascending."""
        return (self._kind > RowKind.UNCHECKED).nonzero()[0]

    @cached_property
    def _rows_that_differ(self) -> dict[int, dict[int, list[int]]]:
        """The rows that differ, by entry and role."""
        rows = self._differing_rows
        found: dict[int, dict[int, list[int]]] = {}
        entries, roles = self._table.entry_of_row()[rows].tolist(), self._role[rows].tolist()
        for row, entry, role in zip(rows.tolist(), entries, roles, strict=True):
            found.setdefault(entry, {}).setdefault(role, []).append(row)
        return found

    @cached_property
    def _worst(self) -> Floats:
        return self._measured.worst

    def _may_be_harmless(self, entry: int) -> bool:
        """Return whether an entry has no difference that is one whatever follows from it."""
        key = self._table.keys[entry]
        parameters = self._rows(entry, Role.PARAMETER)
        forms = _OTHER_FORMS if self._table.alone else ()
        others = (row for row in parameters if self._kind[row] not in forms)
        wrong = (row for row in others if not (self._is_used_elsewhere(row) or self._is_stored_otherwise(row)))
        if key.phase == Phase.PARAMETERS_GRAD.value or any(True for _ in wrong):
            return False
        if not is_module(key) and self._has_only_other_arguments(entry) and not self._has_argument_made_up_for(entry):
            return False
        if self._keeps_state(entry) and self._rows(entry, Role.INPUT) and not self._rows(entry, Role.RESULT):
            return False
        if self._writes_state(entry):
            return False
        return not self._has_overflow(entry)

    def _keeps_state(self, entry: int) -> bool:
        """Return whether a call keeps running statistics: a function keeps those that it gets."""
        key, rows, both = self._table.keys[entry], self._table.rows_of(entry), (self._table.target, self._table.golden)
        leaves = (side[row] for side in both for row in rows)
        given = (leaf is not None and leaf.suffix in _RUNNING_MEAN and is_tensor(leaf.raw) for leaf in leaves)
        return has_state(key) and (is_module(key) or any(given))

    def _is_used_elsewhere(self, row: int) -> bool:
        """Return whether other calls get the parameters of a call, on both sides, and what leaves the step agrees: the
        calls come in another order."""
        if self._kind[row] in _NOT_RETURNED or self._is_nearly_equal(row):
            return False  # a value that is so near may be a twin of the same parameter before an update
        return self.sinks.agree and self.sinks.row_has_twins(row)

    def _differing_rows_of(self, entry: int) -> list[int]:
        return [row for row in self._table.rows_of(entry) if self._kind[row] > RowKind.UNCHECKED]

    def _is_stored_otherwise(self, row: int) -> bool:
        """Return whether a parameter has the elements of the other run in another order, or all of them with one number
        more, and what leaves the step agrees: each program uses its own (other rotary pairs, a norm by ``1 + g``)."""
        return self.sinks.agree and self._holds_otherwise(row)

    def _holds_otherwise(self, row: int) -> bool:
        tensors, twins = self._table.tensors(row), self.sinks.twins
        if self._kind[row] != RowKind.VALUE or len(tensors) != 2 or self._is_nearly_equal(row):
            return False  # what is so near may be an update that is wrong by little
        return twins.hold_the_same(*tensors) or twins.are_shifted(*tensors)

    def _has_overflow(self, entry: int) -> bool:
        return any(self._overflows(row) for role in (Role.RESULT, Role.INPUT) for row in self._rows(entry, role))

    def _writes_state(self, entry: int) -> bool:
        """Return whether a call makes another result in place where no gradients are recorded: of a buffer, which the
        module keeps for the next step; or outside of modules of a tensor that needs none: of a gradient, which an
        optimizer gets. What the forward pass itself has made is neither; in other code tensors of two shapes are a pair
        by chance."""
        key = self._table.keys[entry]
        if is_module(key) or key.phase != Phase.FORWARD.value or not works_in_place(key.stem):
            return False
        if entry < self._last_backward and all(
            changes_temporary(trace, str(name))
            for trace, name in zip(self.end.traces, self._table.entries[entry][:2], strict=True)
        ):
            return False
        body = self._data.get(self._table.entries[entry].target or "")
        outside = not key.parent and all(
            is_float(raw) and raw.get("requires_grad") is False
            for row in self._results(entry)
            for raw in self._table.tensors(row)
        )
        others = RowKind.SHAPE if self.sinks.are_of_other_code else None
        results = any(self._kind[row] != others for row in self._rows(entry, Role.RESULT))
        return (is_without_gradients(body) or outside) and results

    def ending_with_step(self, entries: Iterable[int]) -> frozenset[int]:
        """Return those of these entries whose differences do not leave the step (see ``verdict.sinks``)."""
        if not self.sinks.agree and self._table.alone and self.sinks.forward_agrees:
            return self._ending_forward(entries)
        if not self.sinks.agree:
            return frozenset(one for one in entries if self._has_another_shape(one) and self.sinks.ends_agree)
        differing = list(entries)
        ending = frozenset(one for one in differing if self._ends_with_step(one))
        if len(ending) == len(differing):
            return ending
        # another dtype is why something behind it differs
        return frozenset(one for one in ending if not self._has_another_dtype(one))

    def _has_another_dtype(self, entry: int) -> bool:
        """Return whether both sides make the same calls, and one of them gets or returns another dtype."""
        kinds = (self._kind[row] for row in self._differing_rows_of(entry))
        return not self._table.alone and RowKind.DTYPE in kinds

    def _ending_forward(self, entries: Iterable[int]) -> frozenset[int]:
        """Return those of these entries that end with a step of which gradients or updates alone are wrong: forward
        calls, and the backward calls of those that are a pair by chance."""
        differing = list(entries)
        forward = (one for one in differing if self._table.keys[one].phase == Phase.FORWARD.value)
        ending = frozenset(one for one in forward if self._ends_with_step(one))
        by_chance = (one for one in ending if any(self._kind[row] == RowKind.SHAPE for row in self._results(one)))
        backward = frozenset(map(self._backward_of, by_chance))
        return ending.union(one for one in differing if one in backward)

    def _has_another_shape(self, entry: int) -> bool:
        """Return whether a call of both sides has the same elements in another shape, and the arguments for it."""
        rows = self._differing_rows_of(entry)
        shaped = [row for row in rows if self._kind[row] == RowKind.SHAPE and self._is_tensor(row)]
        others = (row for row in rows if row not in shaped)
        return (
            bool(shaped)
            and not self._rows(entry, Role.PARAMETER)
            and all(self._kind[row] == RowKind.ARGUMENT for row in others)
            and all(self.sinks.twins.hold_the_same(*self._table.tensors(row)) for row in shaped)
        )

    def _is_in_wrong_module(self, entry: int) -> bool:
        """Return whether a module around an entry returns other values of the same: they arise inside of it."""
        around = self._modules_around(self._table.entries[entry].target or "", self._construct)
        return any(self._makes_others_of_same(module) for module in around)

    def beside_stretches(self, entries: Iterable[int]) -> frozenset[int]:
        """Return those of these entries that have no part in what is wrong in the end (see ``verdict.stretch``): what
        returns the same, or the same elements in another shape, before a wrong result arises in another call."""
        before = [entry for entry in entries if entry < self._first_wrong]
        rules = self._returns_the_same, self._is_made_up_for, self._has_another_shape
        return frozenset(one for one in before if any(rule(one) for rule in rules))

    def _is_made_up_for(self, entry: int) -> bool:
        """Return whether a forward call outside of modules returns something else, and what is made of it is the same
        again."""
        key = self._table.keys[entry]
        if key.parent or key.phase != Phase.FORWARD.value or self._has_overflow(entry):
            return False
        results = self._rows(entry, Role.RESULT)
        return bool(results) and all(map(self.sinks.is_made_up_for, results))

    def _has_argument_made_up_for(self, entry: int) -> bool:
        """Return whether another argument makes something else of which the same is made again: ``h * 3 * 0.5``; beside
        other code, wherever that is done before the step ends."""
        if not any(self._kind[row] == RowKind.ARGUMENT for row in self._rows(entry, Role.INPUT)):
            return False
        shows = bool(self._table.alone) and any(map(self._is_tensor, self._rows(entry, Role.RESULT)))
        return (shows and self.sinks.agree) or self._is_made_up_for(entry)

    def _makes_no_floats(self, entry: int) -> bool:
        """Return whether a call returns whole numbers or truth values: what is made of them shows what they do."""
        results = [raw for row in self._results(entry) for raw in self._table.tensors(row)]
        return bool(results) and not any(map(is_float, results))

    @cached_property
    def _first_wrong(self) -> int:
        """The first call in which what is wrong in the end arises: behind all calls where that is not known, 0 where
        nothing is."""
        if self.sinks.agree or not self.sinks.may_agree or not self._table.alone:
            return 0
        if self.sinks.losses_agree:
            return len(self._table.keys)
        first = (
            self._table.numbers_by_name[side][one.calls[0]]
            for side, one in enumerate(map(self.end.stretch, (0, 1)))
            if one is not None
        )
        return min(first, default=len(self._table.keys))

    def _returns_the_same(self, entry: int) -> bool:
        if self._table.keys[entry].phase != Phase.FORWARD.value or self._table.keys[entry].parent in OF_PARAMETERS:
            return False
        rows = self._differing_rows_of(entry)
        parameters = (row for row in rows if self._role[row] == Role.PARAMETER)
        if not all(map(self._holds_otherwise, parameters)) or any(map(self._overflows, rows)):
            return False
        if self._writes_state(entry):
            return False
        results = list(self._results(entry))
        given = (row for row in rows if self._kind[row] == RowKind.VALUE and self._role[row] == Role.INPUT)
        if not all(self.sinks.row_has_twins(row) or self._is_shown_by(row, results) for row in given):
            return False  # a mask, or a larger summand, may hide them in the results
        return bool(results) and all(self.sinks.row_has_twins(row) for row in results)

    def _is_shown_by(self, row: int, results: list[int]) -> bool:
        """Return whether results that are no larger than what a call gets are much closer to those of the other run: a
        mask in another form, of which a softmax makes the same."""
        size = min(_largest(raw) for raw in self._table.tensors(row))
        return all(
            self._worst[one] <= MUCH_CLOSER * self._worst[row] and max(map(_largest, self._table.tensors(one))) <= size
            for one in results
        )

    def _ends_with_step(self, entry: int) -> bool:
        """Return whether what leaves the step shows all that an entry does: gradients are parts of those that leave it.
        Where both sides share most calls, a call that gets the same and returns others is not shown by an end that
        agrees in this step only; where they share few, a pair of calls is chance, and so are its arguments."""
        key, other_code = self._table.keys[entry], self.sinks.are_of_other_code
        changes = key.parent == OPTIMIZER or works_in_place(key.stem) or not other_code
        is_update = changes and entry in self.sinks.updates.calls
        if is_update and (self.sinks.updates.agree or self._order.is_another(entry)):
            return True  # a part of other code
        otherwise = map(self._is_stored_otherwise, self._differing_rows_of(entry))
        if is_update and self._rows(entry, Role.INPUT) and all(otherwise):
            return True
        if key.parent in OF_PARAMETERS or (is_update and other_code):
            return False
        if key.phase == Phase.PARAMETERS_GRAD.value:
            return True
        if key.phase == Phase.BACKWARD.value and self._table.alone:
            return other_code or all(map(self._is_shown_gradient, self._rows(entry, Role.RESULT)))
        if other_code and (self.sinks.sides.go_back or self._makes_no_floats(entry) or self._is_shown(entry)):
            overflows = any(map(self._overflows, self._rows(entry, Role.RESULT)))
            return not (overflows or self._keeps_state(entry) or self._writes_state(entry))
        if not self._is_shown(entry) or self._arises(entry):
            return False
        return self._may_be_harmless(entry) and self.sinks.make_up_for(entry)

    def _arises(self, entry: int) -> bool:
        """Return whether the difference of a call that both sides make arises in it, or inside of a module around it
        that returns other values of the same."""
        arises = self._has_another_form(entry) or (self._makes_others_of_same(entry) and not self._is_right(entry))
        if arises and not self._has_argument_made_up_for(entry):
            return True
        is_gradient = self._table.keys[entry].phase == Phase.BACKWARD.value
        if is_gradient and not all(map(self._is_shown_gradient, self._rows(entry, Role.RESULT))):
            return True
        return self._is_in_wrong_module(entry)

    def _is_right(self, entry: int) -> bool:
        """Return whether either run has what the other one makes of the results of a call."""
        return all(self.end.is_right(str(self._table.entries[entry][side]), side) for side in (0, 1))

    def _has_another_form(self, entry: int) -> bool:
        """Return whether an argument, dtype or shape differs where both sides make the same forward calls: then it is
        what was changed, and its effect may be below rounding in this step. In other code it is a part of it. Where the
        tensors of a call are those of other calls, in both directions, have the same elements in another shape or
        dtype, or make the same result, so are its arguments; where the data come in other pieces, lengths and positions
        are those of the pieces."""
        if self._table.alone or self._has_other_pieces or self._table.keys[entry].phase != Phase.FORWARD.value:
            return False
        differing = self._differing_rows_of(entry)
        if is_module(self._table.keys[entry]):
            differing = [
                row for row in differing if self._table.tensors(row)
            ]  # calls inside, or results, show arguments
        if all(self._kind[row] in (RowKind.VALUE, RowKind.NON_FINITE) for row in differing):
            return False
        given = [row for row in self._rows(entry, Role.INPUT) if self._is_tensor(row)]
        others = bool(given) and all(self._kind[row] == RowKind.VALUE for row in given)
        if others and not self._rows(entry, Role.RESULT):
            return False
        return not given or not all(self.sinks.row_has_twins(row) or self._has_same_elements(row) for row in given)

    def _has_same_elements(self, row: int) -> bool:
        same = self.sinks.twins.hold_the_same(*self._table.tensors(row))
        return same and self._kind[row] in (RowKind.SHAPE, RowKind.DTYPE)

    @cached_property
    def _has_other_pieces(self) -> bool:
        """Whether an outermost call gets a tensor of another shape on each side: a batch or a sequence in pieces."""
        outermost = (number for number, key in enumerate(self._table.keys) if not key.parent)
        rows = (row for number in outermost for row in self._rows(number, Role.INPUT))
        return any(self._kind[row] == RowKind.SHAPE for row in rows)

    def _makes_others_of_same(self, entry: int) -> bool:
        """Return whether a call gets what it gets in the other run, and returns other values of the same shape. A
        module in which one side makes calls of its own is another implementation: there only the order counts."""
        if self._table.keys[entry].phase != Phase.FORWARD.value:
            return False  # a gradient that several slots share may lie in any of them
        if entry in self._of_other_code and not any(map(self._has_another_order, self._rows(entry, Role.RESULT))):
            return False
        results = self._rows(entry, Role.RESULT)
        if self._measured.other_formats.any() and all(map(self._is_nearly_equal, results)):
            return False  # a weight in bytes is off by the same for all rows of a batch
        if self._table.alone and all(map(self.sinks.is_at_tolerance, results)):
            return False  # other code rounds otherwise
        in_order = entry <= self._first_in_another_order
        given = self._given_tensors(entry)
        others = self._rows(entry, Role.INPUT) or self._rows(entry, Role.PARAMETER)
        same = not others and all(map(self._is_nearly_equal, given))
        return bool(given) and same and any(self._is_other_result(row, in_order=in_order) for row in results)

    def _is_other_result(self, row: int, *, in_order: bool) -> bool:
        return bool(self._kind[row] == RowKind.VALUE) and (in_order or not self._has_another_order(row))

    @cached_property
    def _of_other_code(self) -> frozenset[int]:
        """The modules of both sides in which one side makes forward calls of its own; none in 16 bits, where an end
        that agrees does not show what they make."""
        if self.sinks.coarsest > FLOAT32_ROUNDOFF:
            return frozenset()
        forward = [one for one in self._table.alone if self._table.keys[one].phase == Phase.FORWARD.value]
        calls = ((self._table.entries[one].name, self._table.entries[one].target is None) for one in forward)
        return frozenset(
            module
            for name, side in calls
            for module in self._modules_around(name, self._dumps[side].construct, in_golden=side)
        )

    @cached_property
    def _first_in_another_order(self) -> int:
        """The first call that gets the elements of the other run in another order, behind all where none does: from
        there on a batch may have its rows in another order, and by chance nearly the same ``Projection``."""
        rows = (row for row in self._differing_rows.tolist() if self._role[row] == Role.INPUT)
        first = next((row for row in rows if self._has_another_order(row)), None)
        return len(self._table.keys) if first is None else self._table.entries_of([first])[0]

    def _has_another_order(self, row: int) -> bool:
        tensors = self._table.tensors(row)
        return self._kind[row] == RowKind.VALUE and len(tensors) == 2 and self.sinks.twins.hold_the_same(*tensors)

    def _is_nearly_equal(self, row: int) -> bool:
        """Return whether the values of a row are as near as those that leave a step: rows that differ because the calls
        before them do may be farther apart, and pass."""
        return bool(self._worst[row] <= self.sinks.twins.allowed(*self._table.tensors(row)))

    def _is_shown_gradient(self, row: int) -> bool:
        """Return whether the other side has a gradient that one side alone passes on from here, or nothing is trained
        by it: the gradient of a constant, or of frozen calls, which recomputation may need. Of two calls that get
        gradients of other shapes or dtypes, which are a pair by chance, none passes on what the other does."""
        if self._kind[row] not in _NOT_RETURNED or self.sinks.row_has_twins(row) or self._has_all_gradients:
            return True
        (entry,) = self._table.entries_of([row])
        return any(self._kind[given] in (RowKind.SHAPE, RowKind.DTYPE) for given in self._rows(entry, Role.INPUT))

    @cached_property
    def _has_all_gradients(self) -> bool:
        """Whether both sides record the gradients of all parameters that their optimizers train, but of modules that
        they do not call."""
        trained = [{name for step in optimizer_steps(dump) for name in step.parameters} for dump in self._dumps]
        called = {path_of(key.stem) for key in self._table.keys if is_module(key)} | {""}
        lacking = (own - _gradient_names(dump) for own, dump in zip(trained, self._dumps, strict=True))
        return all(trained) and called.isdisjoint(str(name).rpartition(".")[0] for own in lacking for name in own)

    @cached_property
    def _last_backward(self) -> int:
        backward = Phase.BACKWARD.value
        return max((number for number, key in enumerate(self._table.keys) if key.phase == backward), default=0)

    @property
    def sinks(self) -> Sinks:
        """What leaves the step."""
        return self.end.sinks

    @cached_property
    def _order(self) -> ParameterOrder:
        return ParameterOrder(self._table, self.sinks, self._measured, self._kind, self._tolerance)

    def _is_shown(self, entry: int) -> bool:
        """Return whether what leaves the step shows the results of a call: those of modules and of calls inside of
        them, gradients, and what a loss, or a later call, is made of; of positions and truth values of one shape what
        is chosen by them, which no record says."""
        key, results = self._table.keys[entry], self._rows(entry, Role.RESULT)
        if is_module(key) or key.parent or key.phase != Phase.FORWARD.value:
            return True
        if self._makes_no_floats(entry) and all(self._kind[row] == RowKind.VALUE for row in results):
            return True
        return all(self.sinks.are_shown_by_losses(row) or self.sinks.uses_agree(row) for row in results)

    def _overflows(self, row: int) -> bool:
        """Return whether one side has a NaN, or alone has infinity or only minus infinity and the other no mask; a file
        that holds them while no statistic does was damaged."""
        tensors = self._table.tensors(row)
        values = [as_float(raw[name]) for raw in tensors for name in STATISTIC_NAMES if raw.get(name) is not None]
        if any(map(math.isnan, values)) or (self._kind[row] == RowKind.NON_FINITE and all(map(math.isfinite, values))):
            return True
        largest = [as_float(raw.get(LARGEST.name)) for raw in tensors]
        finite = [value for value in largest if math.isfinite(value)]
        infinite = [value for value in largest if math.isinf(value)]
        return bool(finite and infinite) and (infinite[0] > 0 or finite[0] > MASKED)

    def _rows(self, entry: int, role: Role) -> list[int]:
        """Return the rows of a role that differ."""
        return self._rows_that_differ.get(entry, {}).get(int(role), [])

    def _has_only_other_arguments(self, entry: int) -> bool:
        """Return whether a function gets another argument and no other tensors, which could make up for it. Where it
        returns other truth values or whole numbers (a mask, positions), what is made of them shows what they do. In
        other code an argument has no effect where the same is returned, up to what differs in the inputs."""
        if self._table.alone and self._returns_what_it_gets(entry):
            return False
        inputs = self._rows(entry, Role.INPUT)
        has_other = any(self._kind[row] == RowKind.ARGUMENT for row in inputs)
        if not has_other or any(map(self._is_tensor, inputs)):
            return False
        return all(is_float(raw) for row in self._rows(entry, Role.RESULT) for raw in self._table.tensors(row))

    def _returns_what_it_gets(self, entry: int) -> bool:
        """Return whether what a call returns is apart by no more than what it gets, and its rounding."""
        given = (float(self._worst[row]) for row in self._given_tensors(entry))
        results = list(self._results(entry))
        most = 2.0 * max(given, default=0.0) + EXACT
        return bool(results) and all(
            self._kind[row] <= RowKind.UNCHECKED and self._worst[row] <= most for row in results
        )

    def _given_tensors(self, entry: int) -> list[int]:
        rows = self._table.rows_of(entry)
        return [row for row in rows if self._role[row] == Role.INPUT and self._is_tensor(row)]

    def _modules_around(self, name: str, construct: Mapping[str, Any], *, in_golden: bool = False) -> Iterator[int]:
        """Yield the forward entries of the module itself, and of the modules around an entry that both sides call, from
        inside to outside."""
        call = in_phase(name, Phase.FORWARD.value)
        for around in itertools.chain((call,), parents_of(construct, call)):
            number = self._table.numbers_by_name[in_golden].get(around)
            if number is not None and self._table.entries[number].of_both and is_module(self._table.keys[number]):
                yield number

    def _backward_of(self, module: int) -> int | None:
        """Return the backward entry of a call of a module, None where there is none."""
        name = in_phase(self._table.entries[module].target or "", Phase.BACKWARD.value)
        return self._table.numbers_by_name[0].get(name)

    def _results(self, entry: int) -> Iterator[int]:
        """Yield the rows of the tensors that an entry returns."""
        for row in self._table.rows_of(entry):
            if self._role[row] == Role.RESULT and self._is_tensor(row):
                yield row

    def _is_tensor(self, row: int) -> bool:
        leaf = self._table.target[row] or self._table.golden[row]
        return leaf is not None and is_tensor(leaf.raw)


def is_other_mask(table: LeafTable, row: int, kind: int) -> bool:
    """Return whether a row of this kind is a mask that a module of both runs gets in another form: numbers, truth
    values, or none."""
    (entry,), leaf, tensors = table.entries_of([row]), table.target[row] or table.golden[row], table.tensors(row)
    if not (table.entries[entry].of_both and is_module(table.keys[entry])) or leaf is None or leaf.slot != INPUT:
        return False
    if kind < RowKind.DTYPE or not tensors or any(raw.get("requires_grad") for raw in tensors):
        return False
    if kind == RowKind.DTYPE or kind in _NOT_RETURNED:
        return True
    numbers = [raw for raw in tensors if not is_boolean(raw)]  # minus infinity, or another shape, is a part of the form
    return len(tensors) == 2 and len(numbers) == 1 and as_float(numbers[0].get(LARGEST.name)) <= 0.0


def _largest(raw: Mapping[str, Any]) -> float:
    """Return the size of the largest element of a recorded tensor, in units of the data."""
    return max(abs(as_float(raw.get(spec.name))) for spec in (LARGEST, SMALLEST))


def _gradient_names(dump: Dump) -> set[str]:
    """Return the names of the parameters whose gradients a dump has."""
    return {
        f"{path_of(stem_of(name))}.{key}".lstrip(".")
        for name, body in dump.data.items()
        if split_entry(name)[1] == Phase.PARAMETERS_GRAD.value
        for key in body
    }
