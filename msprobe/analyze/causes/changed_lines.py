"""A wrong value that its call does not make, in a line that both programs have: the nearest line of the target alone.

Code that leaves no record stands between what is right and what is wrong. Where two programs share their lines but for
a few, one of these few is more likely than a line that reads the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msprobe.analyze.causes.programs import Programs
from msprobe.analyze.compared_entries import OTHER_VALUE, ComparedEntries
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import in_phase, module_text
from msprobe.compare.records.entries import OPTIMIZER, parents_of
from msprobe.compare.records.source_lines import Frame, frame_of, from_source
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import OUTPUT

_CHANGED = "; the programs differ in this line, which comes before"
_RUN_ALONE = "; the golden run makes no call in this line, which comes before"
_FORWARD = "forward", "construct"
"""The functions in which modules run: what a frame of one calls is in the module, the frame that calls it is not."""


class _Line(NamedTuple):
    """A line: the frames from it outwards, and the module that runs it; None where none does."""

    stack: tuple[str, ...]
    module: str | None


def name_changed_line(comparison: Comparison, description: FirstDivergence) -> None:
    """Give a divergence that comes from outside of its call the nearest line before it that the golden run lacks.

    Nothing changes where the line of the call is such a line, or where no line before it is.
    """
    search = _ChangedLines(comparison, description)
    if not search.is_possible:
        return
    line = next(search.lines(), None)
    if line is None:
        return
    in_golden = search.programs.is_in_golden(frame_of(line.stack[0]))
    description.reason += _RUN_ALONE if in_golden else _CHANGED
    if description.source_of_golden:
        description.golden_stack, description.golden_source = description.stack, description.source
        description.source_of_golden = False
    description.stack, description.source = list(line.stack), frame_of(line.stack[0]).text
    if description.module != OPTIMIZER:
        description.module = line.module


class _ChangedLines(ComparedEntries):
    """Looks for the lines from which the wrong value of one description may come.

    Attributes:
        is_inside: whether it comes from the code of a module, and not from that around the call.
        programs: those of the two runs.
    """

    def __init__(self, comparison: Comparison, description: FirstDivergence) -> None:
        super().__init__(comparison)
        self._description = description
        name, slot = description.target or description.golden or "", description.slot or ""
        self._is_backward = name == in_phase(name, Phase.BACKWARD.value)
        self._call = in_phase(name, Phase.FORWARD.value)
        self._is_result = slot.startswith(OUTPUT) != self._is_backward
        self.is_inside = is_module_name(name) and self._is_result
        self.programs = Programs(comparison.target, comparison.golden)

    @property
    def is_possible(self) -> bool:
        """Whether the value may come from other code than the call itself, and that reads the same in both programs."""
        description = self._description
        if not description.stack or self.comparison.target.merged or not self.programs.differ:
            return False
        loses_gradient = self._is_backward and description.kind == "missing_in_target"
        one_sided = None in (description.target, description.golden)
        elsewhere = OTHER_VALUE in description.reason or loses_gradient or one_sided or not self._is_result
        elsewhere = elsewhere or bool(description.stretch)
        if not (elsewhere or self.is_inside or description.module == OPTIMIZER):
            return False
        return self.is_inside or not self.programs.is_changed(frame_of(self._stack[0])) if self._stack else False

    @cached_property
    def _stack(self) -> list[str]:
        """The frames of the place that is described, in the target; none where it lacks the innermost one."""
        description = self._description
        if not description.source_of_golden:
            return description.stack
        stack = []
        for number, text in enumerate(description.stack):
            frame = frame_of(text)
            place = self.programs.in_target(frame.path, frame.line)
            if place is None and not number:
                return []
            stack.append(text if place is None else _text(frame._replace(path=place[0], line=place[1])))
        return stack

    def lines(self) -> Iterator[_Line]:
        """Yield the changed lines of the target through which the value may come, the nearest first."""
        if self.is_inside:
            yield from self._inside()
        else:
            yield from self._around(self._stack)
        yield from self._elsewhere()

    def _around(self, stack: Sequence[str]) -> Iterator[_Line]:
        """Yield the changed lines of the functions around the call."""
        run = self.comparison.target if self._description.target is not None else self.comparison.golden
        modules, whole = list(parents_of(run.construct, self._call)), run.stacks.get(self._call, ())
        passed = sum(frame_of(text).function in _FORWARD for text in whole[: max(len(whole) - len(stack), 0)])
        for number, text in enumerate(stack):
            frame = frame_of(text)
            module = module_text(modules[passed]) if passed < len(modules) else None
            yield from self._near(frame, stack[number + 1 :], module)
            passed += frame.function in _FORWARD

    def _near(self, frame: Frame, outer: Sequence[str], module: str | None) -> Iterator[_Line]:
        """Yield the changed lines of the function that a frame is in, and of those that it calls by name."""
        for frames in self.programs.changed_near(frame, backwards=self._is_backward):
            texts = tuple(map(_text, frames))
            if self._around_all.isdisjoint(texts[:1]):
                yield _Line((*texts, *outer), module)

    @cached_property
    def _around_all(self) -> set[str]:
        """The frames around all calls of the target: what is right comes from them too."""
        stacks = [stack for name in self.comparison.target.data if (stack := self.comparison.target.stacks.get(name))]
        return {frame for frame in stacks[0] if frame in stacks[-1]} if stacks else set()

    def _inside(self) -> Iterator[_Line]:
        """Yield the changed lines of the functions that run inside of the module, from their ends."""
        target, seen, module = self.comparison.target, set(), module_text(self._call)
        calls = [name for name in target.data if next(parents_of(target.construct, name), None) == self._call]
        for name in reversed(calls):
            stack = from_source(target.stacks.get(name, ()))
            for number, frame in enumerate(map(frame_of, stack)):
                end = self.programs.end_of_function(frame)
                if end not in seen:
                    seen.add(end)
                    yield from self._near(end, stack[number + 1 :], module)
                if frame.function in _FORWARD:
                    break

    def _elsewhere(self) -> Iterator[_Line]:
        """Yield the first changed line where all of them stand together: nothing else differs."""
        if frame := self.programs.only_change():
            yield _Line((_text(frame),), self._description.module if self._description.kind == "argument" else None)


def _text(frame: Frame) -> str:
    return f"File {frame.path}, line {frame.line}, in {frame.function}, \n {frame.code}"
