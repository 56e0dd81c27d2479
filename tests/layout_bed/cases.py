"""A case: two runs in two layouts, and what a comparison of them has to say."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SOURCE = re.compile(r"^(?P<path>.*?):(?P<line>\d+) in (?P<function>[\w.<>]*)")


@dataclass(frozen=True)
class Place:
    """A line of a function: what a source ``PATH:LINE in FUNCTION: TEXT`` names."""

    path: Path
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line} {self.function}"


@dataclass(frozen=True)
class LayoutCase(ABC):
    """Two runs.

    Args:
        name: what is compared.
        target: the run that is judged.
        golden: a run without a fault.
        fault: what the target has, or None where both are right. It says the parts of the path of which the module
            that is named has one (``module``, separated by bars).
        merged: whether the comparison is given the layouts.
    """

    name: str
    target: Any
    golden: Any
    fault: Any = None
    merged: bool = True

    @property
    def harmless(self) -> bool:
        """Return whether the runs compute the same."""
        return self.fault is None

    @property
    @abstractmethod
    def expected(self) -> str:
        """Return the lines or functions of which one has to be named."""

    @abstractmethod
    def is_place(self, place: Place) -> bool:
        """Return whether a line names the fault."""

    def is_module(self, module: str | None) -> bool:
        """Return whether a module, ``PATH.CLASS``, names the fault."""
        path = (module or "").rpartition(".")[0] or module or ""
        return bool(self.fault.module) and any(part in path for part in self.fault.module.split("|"))


def place_of(source: str) -> Place | None:
    """Return the line that the source of a divergence names, or None."""
    match = _SOURCE.search(source)
    return Place(Path(match["path"]), int(match["line"]), match["function"].rpartition(".")[2]) if match else None
