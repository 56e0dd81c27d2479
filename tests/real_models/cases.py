"""A case: two runs, and what a comparison of them has to say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from tests.real_models.runs import MARK, Run, lines_with

ANY = "*"
"""As a module: any one."""
Lines = set[tuple[str, int]]
"""Names of files of a program with numbers of lines."""


@dataclass(frozen=True, slots=True)
class Case:
    """Two runs.

    Args:
        name: family and what differs.
        changed: the run with the change or the fault.
        healthy: the other run.
        modules: the paths of the modules of which a good tool names one; "" where no module makes the call. Empty for
            a harmless change.
        at: texts of lines of the changed program that are right, besides those marked with ``MARK``.
        healthy_at: texts of lines of the healthy program that are right: a call that the other has not.
        near: texts of lines of the changed program that first use the wrong value in a recorded call, where the line
            that computes it makes none.
        reverse: whether the golden run has the fault, and not the target.
    """

    name: str
    changed: Run
    healthy: Run
    modules: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    healthy_at: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    reverse: bool = False

    @property
    def target(self) -> Run:
        """Return the run that is judged."""
        return self.healthy if self.reverse else self.changed

    @property
    def golden(self) -> Run:
        """Return the run it is compared with."""
        return self.changed if self.reverse else self.healthy

    @property
    def harmless(self) -> bool:
        """Return whether the two runs mean the same."""
        return not self.modules

    def reversed(self) -> Case:
        """Return the case with the fault on the other side."""
        kind, _, rest = self.name.partition("/")
        return replace(self, name=f"{kind}-in-golden/{rest}", reverse=not self.reverse)

    def right_lines(self) -> tuple[Lines, Lines]:
        """Return the right lines of the changed program, and those of the healthy one.

        The latter are named ones, and those in the place of right lines of the changed program.
        """
        marked = lines_with(self.changed, MARK) if any(MARK in edit.new for edit in self.changed.edits) else set()
        changed = marked.union(*(lines_with(self.changed, text) for text in self.at))
        healthy = (lines_with(self.healthy, text) for text in self.healthy_at)
        return changed, self._in_healthy(changed).union(*healthy)

    def near_lines(self) -> tuple[Lines, Lines]:
        """Return the lines that first use the wrong value, of the changed program and of the healthy one."""
        changed: Lines = set().union(*(lines_with(self.changed, text) for text in self.near))
        return changed, self._in_healthy(changed)

    def _in_healthy(self, lines: Lines) -> Lines:
        """Return the lines of the healthy program that are the same as ``lines``, or replaced by them one by one."""
        ours, theirs = self.changed.program(), self.healthy.program()
        result = set()
        for name in {name for name, _ in lines}:
            matcher = SequenceMatcher(None, ours[name].splitlines(), theirs[name].splitlines(), autojunk=False)
            for kind, start, end, other, other_end in matcher.get_opcodes():
                if kind == "equal" or (kind == "replace" and end - start == other_end - other):
                    result |= {
                        (name, other + line - start) for line in range(start + 1, end + 1) if (name, line) in lines
                    }
        return result
