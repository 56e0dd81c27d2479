"""Where two programs of other code part: the stretch of calls of the target in which a value becomes wrong.

Pairs of calls say which call is wrong where both programs make it. Where they share few calls, or get their data in
other portions, values that both should have say more (``compare.verdict.stretch``).
"""

from __future__ import annotations

import math
from typing import Any

from msprobe.analyze.call_order import call_instead
from msprobe.analyze.causes.lost_parameters import LostParameters
from msprobe.analyze.causes.moved_values import set_place_of
from msprobe.compare.records.call_source import PairSource, call_source, module_text, of_stack
from msprobe.compare.records.entries import EntryPair, path_of, stem_of
from msprobe.compare.records.source_lines import Frame, frame_of, from_source
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.compare.verdict.reads import Read
from msprobe.compare.verdict.sinks import Sinks, are_of_other_code
from msprobe.compare.verdict.stretch import Stretch
from msprobe.compare.verdict.twins import mark_of, norm_of
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import OUTPUT, PARAMETER
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Role
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import EXACT, same_values

_FLOAT = unit_roundoff("torch.float32")


class OtherCode(LostParameters):
    """Describes where other code goes wrong; entries and rows are numbers in the table of the comparison."""

    def description_for(self, entry: int, description: FirstDivergence) -> tuple[int, FirstDivergence]:
        """Return a first divergence and its entry as other code shows it: the given one with the lines of its stretch
        where it lies in it, or another one."""
        sinks = self.comparison.step_end().sinks
        read = self._read_otherwise() if sinks.are_of_other_code else None
        if read is not None:
            return len(self.table.entries), read
        if (lost := self.lost_parameter()) is not None:
            return self._named(entry, lost), lost
        own = self._named(entry, description)
        stretch = None if self._is_of_wrong_parameter(entry, description) else self._stretch(own)
        if stretch is None:
            return entry, description
        numbers = self.table.numbers_by_name[0]
        first, last = numbers[stretch.first], numbers[stretch.boundary.call.name]
        named = numbers.get(description.target or "", entry)
        if not (self.table.entries[own].of_both and first <= named <= last and first <= entry):
            entry, description = first, self._described(first, stretch)
        description.stretch = self._lines(stretch)
        return entry, description

    def _named(self, entry: int, description: FirstDivergence) -> int:
        """Return the entry that a description names: calls of one run may stand for one of both."""
        target, golden = self.table.numbers_by_name
        return target.get(description.target or "", golden.get(description.golden or "", entry))

    def end(self) -> tuple[int, FirstDivergence] | None:
        """Return the first divergence and its entry where no pair of calls differs, but the losses, or what the
        programs read; None where they agree."""
        if not self.comparison.ends_apart:
            return None
        if (read := self._read_otherwise()) is not None:
            return len(self.table.entries), read
        if (lost := self.lost_parameter()) is not None:
            return self._named(len(self.table.entries), lost), lost
        end = self.comparison.step_end()
        if (stretch := end.stretch(0)) is not None:
            first = self.table.numbers_by_name[0][stretch.first]
            description = self._described(first, stretch)
            description.stretch = self._lines(stretch)
            return first, description
        first = next((entry for entry, _ in end.sinks.wrong(0)), len(self.table.entries) - 1)
        what = "what leaves the step (losses, gradients, parameters, what the programs read)"
        text = f"{what} is another in the end; no call before shows where they part"
        return first, self.build(first, None, "value", text, None)

    def _read_otherwise(self) -> FirstDivergence | None:
        """Describe the first number that the programs read otherwise, where all else that leaves the step agrees."""
        sinks = self.comparison.step_end().sinks
        if not (sinks.comparable and math.isfinite(sinks.apart) and sinks.reads_are_others and self.table.alone):
            return None
        if all(self._is_made(sinks, side) for side in (0, 1)):
            return None  # calls show more
        (own, *_), (other, *_) = sinks.other_reads
        place = self.comparison.target.place
        description = FirstDivergence(
            step=place.step,
            rank=place.number if place.kind == "rank" else None,
            target=f"Tensor.{own.call}",
            golden=f"Tensor.{other.call}",
            slot=None,
            kind="value",
            reason=f"the target reads {_numbers_of(own)}, the golden run {_numbers_of(other)}; losses, gradients and "
            "results of the step agree, so what makes these numbers is not recorded (an evaluation, averaged weights)",
            module=None,
            stack=[],
        )
        set_place(description, PairSource(of_stack(own.stack), of_stack(other.stack)))
        return description

    def _is_made(self, sinks: Sinks, side: int) -> bool:
        """Return whether a recorded call makes the first number that a side reads otherwise."""
        first = mark_of(sinks.other_reads[side][0].raw)
        calls = sinks.sides.forward(side)
        return any(mark_of(raw) == first for entry in calls for _, raw in sinks.sides.leaves(side, entry, OUTPUT))

    def _stretch(self, entry: int) -> Stretch | None:
        """Return the stretch in which the target goes wrong; None where pairs of calls say more, or no forward call
        shows it. A call with right results, or of which the right values are made, is no culprit; in 16 bits other
        values are near enough that a pair says more."""
        end = self.comparison.step_end()
        sinks = end.sinks
        if not sinks.comparable or sinks.agree:
            return None
        if self._has_other_portions() or self._is_other_code(sinks, entry):
            return end.stretch(0)
        pair = self.table.entries[entry]
        instead = pair.golden is None and self.is_module(entry) and call_instead(self.table, entry, golden_only=False)
        if instead is not None and instead is not False:  # another class says nothing of values; what is inside does
            stretch = end.stretch(0)
            first = None if stretch is None else self.table.numbers_by_name[0][stretch.first]
            if first is not None and self.name(entry) in self.ancestors(first):
                return stretch
        if pair.target is None:
            right = end.has_twins(str(pair.golden), 1)
        else:
            right = end.has_twins(pair.target) or (end.is_right(pair.target) and not self._is_in_wrong_layer(entry))
        if not right or not self.table.alone or sinks.coarsest > _FLOAT:
            return None
        stretch = end.stretch(0)
        if stretch is None or (stretch.broken and (pair.target is not None or is_module_name(stretch.first))):
            return None
        return None if stretch.left_out and not pair.of_both else stretch

    def _is_of_wrong_parameter(self, entry: int, description: FirstDivergence) -> bool:
        """Return whether a parameter of both programs has other elements, and not only another order, or one number
        more: whatever code uses it, it was wrong before."""
        number = self.table.numbers_by_name[0].get(description.target or "", entry)
        rows = self.differing_rows(number, Role.PARAMETER) if (description.slot or "").startswith(PARAMETER) else []
        pairs = [(self.table.target[row], self.table.golden[row]) for row in rows]
        twins = self.comparison.step_end().sinks.twins
        return any(
            own is not None
            and other is not None
            and own.raw.get("shape") == other.raw.get("shape")
            and not (same_values(own.raw, other.raw) or twins.are_shifted(own.raw, other.raw))
            for own, other in pairs
        )

    def _is_in_wrong_layer(self, entry: int) -> bool:
        """Return whether the module around an entry, a part of the model, returns other values: what comes behind may
        take a difference away again, such as a scale before a norm."""
        around, numbers = next(self.ancestors(entry), ""), self.entry_by_name(entry)
        return (
            bool(path_of(stem_of(around)))
            and around in numbers
            and bool(self.differing_rows(numbers[around], Role.RESULT))
        )

    def _is_other_code(self, sinks: Sinks, entry: int) -> bool:
        """Return whether the programs, or what runs in a module around an entry, share less than half of their calls,
        and each has calls of its own: else calls are left out."""
        if sinks.are_of_other_code:
            return True
        paths = {path for name in self.ancestors(entry) if (path := path_of(stem_of(name)))}
        return any(are_of_other_code(*(self._inside(sinks, side, path) for side in (0, 1))) for path in paths)

    def _inside(self, sinks: Sinks, side: int, path: str) -> set[int]:
        """Return the innermost forward calls of a side in the module of a path, and in those inside it."""
        parents = ((one, path_of(self.table.keys[one].parent)) for one in sinks.sides.innermost(side))
        return {one for one, around in parents if around == path or around.startswith(f"{path}.")}

    def _has_other_portions(self) -> bool:
        """Return whether the first difference is how many elements a call gets at once."""
        entry = int(self.comparison.row_levels.diverging.nonzero()[0][0])
        rows = self.tensor_inputs(entry) if self.table.entries[entry].of_both else []
        leaves = (self.table.target[rows[0]], self.table.golden[rows[0]]) if rows else ()
        return len({element_count(leaf.raw) for leaf in leaves if leaf is not None}) > 1

    def _described(self, first: int, stretch: Stretch) -> FirstDivergence:
        boundary = stretch.boundary
        golden = f" (the golden run: {stretch.golden})" if stretch.golden else ""
        value = f"{boundary.leaf.suffix.lstrip('.')} of {boundary.call.name}"
        pair = self.table.entries[first]
        if stretch.left_out is not None:
            text = f"it gets another value than {stretch.golden}, which gets what {stretch.left_out} returns"
            pair = EntryPair(stretch.first, stretch.left_out)
        elif stretch.calls == (boundary.call.name,) and boundary in boundary.call.returned and not stretch.broken:
            text = f"{value} has no counterpart in the golden run{golden}; its inputs have one"
        else:
            text = (
                f"{value} is the first value without counterpart in the golden run{golden}; the difference arises in "
                f"{_where(stretch)}, or in code before or between them that leaves no record"
            )
        if stretch.calls == (boundary.call.name,) and boundary in boundary.call.given:
            first = self._outermost_with(boundary.raw, first)
            pair = pair._replace(target=self.name(first))
        description = self.build(first, None, "value", text, self._module_of_line(first), pair)
        if stretch.moved is not None:
            set_place_of(description, stretch.moved)
        return description

    def _outermost_with(self, raw: Any, entry: int) -> int:
        """Return the outermost module around a call that gets the same value as it does, or the call: no code inside of
        such a module makes that value."""
        calls, numbers = self.comparison.step_end().traces[0].by_name, self.entry_by_name(entry)
        for name in self.ancestors(entry):
            if name not in calls or not any(same_values(value.raw, raw, EXACT) for value in calls[name].given):
                break
            entry = numbers[name]
        return entry

    def _module_of_line(self, call: int) -> str | None:
        """Return the module in whose forward the source line of a call stands: each layer of a framework around the
        call has a frame of its own before it."""
        if self.is_module(call):
            return self.module(call)
        stack = self.source(call).own.stack
        passed = stack[: len(stack) - len(from_source(stack))]
        inside = sum(frame_of(frame).function == "forward" for frame in passed)
        around = list(self.ancestors(call))
        return module_text(around[min(inside, len(around) - 1)]) if around else self.module(call)

    def _lines(self, stretch: Stretch) -> list[str]:
        """Return the source lines of a stretch and of its boundary, each once, in the order of execution, behind that
        of the call before them in the same function."""
        target, names = self.comparison.target, (*stretch.calls, stretch.boundary.call.name)
        sources = [call_source(target, name).source for name in names]
        moved = "" if stretch.moved is None or stretch.moved.line is None else frame_of(stretch.moved.line).text
        return list(dict.fromkeys(filter(None, [self._line_before(stretch), moved, *sources])))

    def _line_before(self, stretch: Stretch) -> str:
        """Return the line of the last call before a stretch in the function in which it begins; "" where there is
        none."""
        frame = self._frame(stretch.calls[0])
        first = self.table.numbers_by_name[0][stretch.calls[0]]
        for entry in range(first - 1, -1, -1):
            name = self.table.entries[entry].target
            if frame is None or name is None or self.table.keys[entry].phase != Phase.FORWARD.value:
                continue
            for text in self.comparison.target.stacks.get(name, ()):
                other = frame_of(text)
                if (other.path, other.function) == (frame.path, frame.function) and other.line < frame.line:
                    return other.text
        return ""

    def _frame(self, name: str) -> Frame | None:
        shown = from_source(call_source(self.comparison.target, name).stack)
        return frame_of(shown[0]) if shown else None


def _where(stretch: Stretch) -> str:
    """Return in words in which of the calls of a stretch the difference arises."""
    first = "this call" if stretch.moved is None else f"{stretch.moved.name}, which moves what this call gets"
    behind = len(stretch.calls) - 1 + (stretch.moved is not None)
    if not behind:
        return first
    return f"{first}, the one behind it" if behind == 1 else f"{first}, one of the {behind} behind it"


def _numbers_of(read: Read) -> str:
    """Return the first numbers that a program reads in words, or the norm of a tensor with more than are recorded."""
    return ", ".join(f"{number:.6g}" for number in read.numbers[:3]) or f"a tensor of norm {norm_of(read.raw):.6g}"
