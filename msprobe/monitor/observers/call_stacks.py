"""``stack_info.csv``: from which lines of the program each module is called."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.core.capture.call_stack import StackTable
from msprobe.core.store.safe_files import make_folder, write_atomic

FILE: Final = "stack_info.csv"


class CallStacks:
    """Implements ``CallObserver``.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stacks = StackTable()
        self._found: dict[str, list[str]] = {}

    def forward(self, stage: int, module: str, kind: str, values: Sequence[Any]) -> None:
        if f"{stage}:{module}" not in self._found:
            self._found[f"{stage}:{module}"] = self._stacks.text(self._stacks.capture())

    def backward(self, stage: int, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The stack of a backward pass says nothing of the program."""

    def finish(self) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["module_name", "stack_info"])
        writer.writerows([name, "\n".join(stack)] for name, stack in self._found.items())
        make_folder(self._folder)
        write_atomic(self._folder / FILE, [text.getvalue().encode()])
