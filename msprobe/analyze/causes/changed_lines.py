"""A wrong value that its call does not make, in a line that both programs have: the nearest line of the target alone.

Code that leaves no record stands between what is right and what is wrong. Where two programs share their lines but for
a few, one of these few is more likely than a line that reads the same in both.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msprobe.analyze.causes.moved_values import describe_move, way_of
from msprobe.analyze.compared_entries import OTHER_VALUE, ComparedEntries
from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import in_phase, module_text
from msprobe.compare.records.entries import OPTIMIZER, parents_of
from msprobe.compare.records.source_lines import frame_of, from_source
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OUTPUT
from msprobe.trace.moves import Move, moves_of

_NOTE = "; the programs differ in this line, which comes before"
_FORWARD = "forward", "construct"
"""The functions in which modules run: what a frame of one calls is in the module, the frame that calls it is not."""


_Place = tuple[str, str, str | None]


class _Line(NamedTuple):
    """A line: the frames from it outwards, the call of the module that runs it (None where none does), and the move
    that is made there."""

    stack: tuple[str, ...]
    module: str | None
    move: Move | None = None

    @property
    def place(self) -> _Place:
        """The function that the line stands in, by file and name, and the call of the module that runs it."""
        frame = frame_of(self.stack[0])
        return frame.path, frame.function, self.module


def name_changed_line(comparison: Comparison, entry: int, description: FirstDivergence) -> None:
    """Give a divergence that comes from outside of its call the nearest line before it that the golden run lacks.

    Nothing changes where the line of the call is such a line, or where no line before it is.
    """
    search = _ChangedLines(comparison, entry, description)
    if not search.is_possible or (not search.is_inside and description.stack[0] in search.changed):
        return
    line = next((line for line in search.lines() if line.stack[0] in search.changed), None)
    if line is None:
        return
    if line.move is not None:
        describe_move(description, line.move)
    description.reason += _NOTE
    description.stack, description.source = list(line.stack), frame_of(line.stack[0]).text
    description.module = None if line.module is None else module_text(line.module)


class _ChangedLines(ComparedEntries):
    """Looks for the lines from which the wrong value of one description may come.

    Attributes:
        is_inside: whether it comes from the code of a module, and not from that around the call.
    """

    def __init__(self, comparison: Comparison, entry: int, description: FirstDivergence) -> None:
        super().__init__(comparison)
        self._entry, self._description = entry, description
        name, slot = description.target or "", description.slot or ""
        self._is_backward = name == in_phase(name, Phase.BACKWARD.value)
        self._call = in_phase(name, Phase.FORWARD.value)
        self.is_inside = is_module_name(name) and slot.startswith(OUTPUT) != self._is_backward

    @property
    def is_possible(self) -> bool:
        """Whether both runs make the call, it is not the call itself that goes wrong, and some lines differ."""
        description = self._description
        if None in (description.target, description.golden, description.slot) or not description.stack:
            return False
        if description.module == OPTIMIZER or self.comparison.target.merged:
            return False
        loses_gradient = self._is_backward and description.kind == "missing_in_target"
        return (OTHER_VALUE in description.reason or loses_gradient or self.is_inside) and bool(self.changed)

    @cached_property
    def changed(self) -> set[str]:
        """The frames of the target in lines of the program that no recorded call of the golden run is in, but for those
        around all of its calls: what is right comes from them too."""
        known = {frame_of(frame).code for frame in _frames_of(self.comparison.golden)}
        own = {frame: frame_of(frame) for frame in _frames_of(self.comparison.target)}
        new = {text for text, frame in own.items() if frame.code not in known and frame.code and not frame.passes_on}
        stacks = [stack for name in self.comparison.target.data if (stack := self.comparison.target.stacks.get(name))]
        return new - {frame for frame in stacks[0] if frame in stacks[-1]} if stacks else new

    def lines(self) -> Iterator[_Line]:
        """Yield lines of the target through which the value may come, the nearest first."""
        around = list(self._around(self._description.stack, list(self.ancestors(self._entry))))
        at_work = {line.place for line in around}
        yield from self._moves_of_value(at_work)
        if self.is_inside:
            yield from self._inside()
        else:
            yield from around[1:]
            yield from self._before(at_work)

    def _moves_of_value(self, at_work: Container[_Place]) -> Iterator[_Line]:
        """Yield the lines of the moves behind the value; where none of the results that it may be made of is known, of
        those in functions that are at work."""
        if self._is_backward:
            return
        way = way_of(self.comparison.target, f"{self._description.target}.{self._description.slot}")
        for move in () if way is None else way.trail.moves:
            if move.line is not None:
                line = _Line((move.line,), move.parent, move)
                if way is not None and (way.trail.sources or self.is_inside or line.place in at_work):
                    yield line

    def _around(self, stack: Sequence[str], around: Sequence[str]) -> Iterator[_Line]:
        """Yield the line of a call, and those around it; ``around`` are the module calls that it is in."""
        passed = 0
        for number, frame in enumerate(stack):
            yield _Line(tuple(stack[number:]), around[passed] if passed < len(around) else None)
            passed += frame_of(frame).function in _FORWARD

    def _before(self, at_work: Container[_Place]) -> Iterator[_Line]:
        """Yield the lines of earlier calls in functions that are at work for a module call, the last one first."""
        for around, stack in self._earlier(self._right_until()):
            if not self.changed.isdisjoint(stack):
                yield from (line for line in self._around(stack, around) if line.place in at_work)

    def _inside(self) -> Iterator[_Line]:
        """Yield the lines of the calls inside of the module, the last one first."""
        for around, stack in self._earlier(0):
            if around[:1] == [self._call]:
                yield _Line(stack, self._call)

    def _right_until(self) -> int:
        """Return how many calls of the target end with the one that makes the right value in the golden run; 0 where
        none is known."""
        golden, names = self.comparison.golden, list(self.comparison.target.data)
        way = way_of(golden, f"{self._description.golden}.{self._description.slot}")
        makers = [] if way is None else [value.call.name for value in (way.value.root, *way.trail.sources)]
        numbers = [self.table.numbers_by_name[1].get(name) for name in makers if name != self._description.golden]
        made = [self.table.entries[number].target for number in numbers if number is not None]
        return max((names.index(name) + 1 for name in made if name is not None), default=0)

    def _earlier(self, first: int) -> Iterator[tuple[list[str], tuple[str, ...]]]:
        """Yield the module calls around each call of the target before this one, and its frames, the last one first, up
        to a position among all calls; a move has one frame."""
        target = self.comparison.target
        names, moves = list(target.data), moves_of(target, target.data)
        for number in range(names.index(self._call) if self._call in target.data else 0, first - 1, -1):
            while moves and moves[-1].number >= number:
                move = moves.pop()
                if move.line is not None and move.number == number:
                    yield [] if move.parent is None else [move.parent], (move.line,)
            if number > first:
                name = names[number - 1]
                yield list(parents_of(target.construct, name)), tuple(from_source(target.stacks.get(name, ())))


def _frames_of(dump: Dump) -> set[str]:
    moves = {move.line for move in moves_of(dump, dump.data) if move.line is not None}
    return moves.union(*dump.stacks.values())
