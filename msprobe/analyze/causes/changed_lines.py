"""A wrong value that its call does not make, in a line that both programs have: the nearest line of the target alone.

Code that leaves no record stands between what is right and what is wrong. Where two programs share their lines but for
a few, one of these few is more likely than a line that reads the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import dropwhile
from typing import NamedTuple

from msprobe.analyze.causes.moved_values import describe_move, way_of
from msprobe.analyze.causes.programs import Programs
from msprobe.analyze.compared_entries import OTHER_VALUE, OWN_ARGUMENT, WITHOUT_GRADIENT, ComparedEntries
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import in_phase, module_text
from msprobe.compare.records.entries import OPTIMIZER, parents_of
from msprobe.compare.records.source_lines import Frame, frame_of, from_source
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import OUTPUT, PARAMETER
from msprobe.trace.moves import Move

_CHANGED = "; the programs differ in {}, which comes before"
_RUN_ALONE = "; the golden run makes no call in {}, which comes before"
_LACKS = "; before {} the golden program has `{}`, which the target lacks"
_FORWARD = "forward", "construct"
"""The functions in which modules run: what a frame of one calls is in the module, the frame that calls it is not."""


class _Line(NamedTuple):
    """A line: the frames from it outwards, the module that runs it (None where none does), and the move that is made
    there."""

    stack: Sequence[Frame]
    module: str | None
    move: Move | None = None


def name_changed_line(comparison: Comparison, description: FirstDivergence) -> None:
    """Give a divergence that comes from outside of its call the nearest line before it that the golden run lacks.

    Nothing changes where the line of the call is such a line, or where no line before it is. A call of the golden run
    in a line that the target lacks gets the place where the target goes on without it.
    """
    search = _ChangedLines(comparison, description)
    of_golden = description.source_of_golden and bool(description.stack)
    if of_golden and (lost := search.programs.without(frame_of(description.stack[0]))) is not None:
        description.target_stack, description.target_source = [lost.recorded], lost.text
        return
    line = next(search.lines(), None) if search.is_possible else None
    if line is None:
        return
    if line.move is not None:
        describe_move(description, line.move)
    stack, source = [frame.recorded for frame in line.stack], line.stack[0].text
    description.reason += search.note(line.stack[0])
    if search.is_given:
        description.target_stack, description.target_source = stack, source
        return
    if description.source_of_golden:
        description.golden_stack, description.golden_source = description.stack, description.source
        description.source_of_golden, description.target_stack, description.target_source = False, [], ""
    description.stack, description.source, description.module = stack, source, line.module


class _ChangedLines(ComparedEntries):
    """Looks for the lines from which the wrong value of one description may come.

    Attributes:
        is_inside: whether it comes from the code of a module, and not from that around the call.
        is_given: whether the call is given what differs, by an argument or as a parameter: it stays the place of the
            difference, and the line is named beside it.
    """

    def __init__(self, comparison: Comparison, description: FirstDivergence) -> None:
        super().__init__(comparison)
        self._description = description
        name, slot = description.target or description.golden or "", description.slot or ""
        self._is_backward = name == in_phase(name, Phase.BACKWARD.value)
        self._call = in_phase(name, Phase.FORWARD.value)
        self._is_result = slot.startswith(OUTPUT) != self._is_backward
        self.is_inside = is_module_name(name) and self._is_result
        self.is_given = (
            description.module == OPTIMIZER or OWN_ARGUMENT in description.reason or slot.startswith(f"{PARAMETER}.")
        )

    @cached_property
    def programs(self) -> Programs:
        """The programs of the two runs."""
        return Programs(self.comparison.target, self.comparison.golden)

    @property
    def is_possible(self) -> bool:
        """Whether the value may come from other code than the call itself, and that reads the same in both programs."""
        description = self._description
        if not description.stack or self.comparison.target.merged or not self.programs.differ:
            return False
        loses_gradient = self._is_backward and description.kind == "missing_in_target"
        loses_gradient |= WITHOUT_GRADIENT in description.reason
        one_sided = None in (description.target, description.golden)
        elsewhere = OTHER_VALUE in description.reason or loses_gradient or one_sided or not self._is_result
        outside = elsewhere or bool(description.stretch) or description.module == OPTIMIZER
        if not self._stack:
            return frame_of(description.stack[0]).is_library  # of the golden run alone: the target has no line there
        return self.is_inside or (outside and not self.programs.is_changed(self._stack[0]))

    @cached_property
    def _stack(self) -> list[Frame]:
        """The frames of the place that is described, in the target; those around it that both run, where the golden run
        alone is there: what the statement of the first of these lacks, or has else, is what leads there."""
        stack = [*map(frame_of, self._description.stack)]
        if not self._description.source_of_golden:
            return stack
        return [*map(self.programs.in_target, dropwhile(self._is_of_golden, stack))]

    @cached_property
    def _is_inside_of_call(self) -> bool:
        """Whether that place is inside of a call that both run."""
        return self._description.source_of_golden and self._is_of_golden(frame_of(self._description.stack[0]))

    def _is_of_golden(self, frame: Frame) -> bool:
        return frame.is_library or not self.programs.is_run_by_both(frame)

    def note(self, frame: Frame) -> str:
        """Return in words what is different in a line."""
        here = f"line {frame.line}" if self.is_given else "this line"
        if not self.programs.is_in_golden(frame):
            return _CHANGED.format(here)
        lacks = self.programs.lacking[frame.path].get(frame.line)
        return _RUN_ALONE.format(here) if lacks is None else _LACKS.format(here, lacks)

    def lines(self) -> Iterator[_Line]:
        """Yield the changed lines of the target through which the value may come, the nearest first, then those before
        which it lacks one."""
        yield from self._moves_of_value()
        for lacking in (False, True):
            yield from self._inside(lacking) if self.is_inside else self._around(self._stack, lacking)
        if frame := self.programs.only_change():
            yield _Line([frame], None)

    def _moves_of_value(self) -> Iterator[_Line]:
        """Yield the changed lines in which moves behind the value are made, where it is known what they move."""
        if self._is_backward or self._description.target is None:
            return
        way = way_of(self.comparison.target, f"{self._description.target}.{self._description.slot}")
        for move in way.trail.moves if way is not None and way.trail.sources else ():
            if move.line is not None and self.programs.is_changed(frame := frame_of(move.line)):
                yield _Line([frame], module_text(move.parent) if move.parent else None, move)

    def _around(self, stack: Sequence[Frame], lacking: bool) -> Iterator[_Line]:
        """Yield the changed lines of the functions around the call, or those before which one is ``lacking``."""
        run = self.comparison.target if self._description.target is not None else self.comparison.golden
        modules, whole = list(parents_of(run.construct, self._call)), run.stacks.get(self._call, ())
        passed = sum(frame_of(text).function in _FORWARD for text in whole[: max(len(whole) - len(stack), 0)])
        for number, frame in enumerate(stack):
            module = module_text(modules[passed]) if passed < len(modules) else None
            yield from self._near(frame, stack[number + 1 :], module, lacking)
            passed += frame.function in _FORWARD

    def _inside(self, lacking: bool) -> Iterator[_Line]:
        """Yield these lines of the functions that run inside of the module, from their ends."""
        target, seen, module = self.comparison.target, set(), module_text(self._call)
        calls = [name for name in target.data if next(parents_of(target.construct, name), None) == self._call]
        for name in reversed(calls):
            stack = [*map(frame_of, from_source(target.stacks.get(name, ())))]
            for number, frame in enumerate(stack):
                end = self.programs.end_of_function(frame)
                if end not in seen:
                    seen.add(end)
                    yield from self._near(end, stack[number + 1 :], module, lacking)
                if frame.function in _FORWARD:
                    break

    def _near(self, frame: Frame, outer: Sequence[Frame], module: str | None, lacking: bool) -> Iterator[_Line]:
        """Yield these lines of the function that a frame is in, and of those that it calls by name; none around
        all calls of the target: what is right comes from them too."""
        for frames in self.programs.changed_near(frame, backwards=self._is_backward, lacking=lacking):
            statement = self.programs.files[frame.path].statement(frame.line)
            leads = not self._is_inside_of_call or frames[0].line in statement
            if leads and (frames[0].path, frames[0].line) not in self._around_all:
                yield _Line([*frames, *outer], module)

    @cached_property
    def _around_all(self) -> set[tuple[str, int]]:
        """The lines in which all calls of the target are made, by file and number."""
        stacks = [stack for name in self.comparison.target.data if (stack := self.comparison.target.stacks.get(name))]
        common = set(stacks[0]).intersection(stacks[-1]) if stacks else ()
        return {(frame.path, frame.line) for frame in map(frame_of, common)}
