"""What a session tells beside measuring: the calls of modules in the first step that is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class CallObserver(Protocol):
    """Looks at the calls of one step, and writes what it has found when the step ends."""

    def forward(self, stage: int, module: str, kind: str, values: Sequence[Any]) -> None:
        """Look at the inputs or outputs of a call, which runs or has just ended."""
        ...

    def backward(self, stage: int, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Look at the gradients of a call."""
        ...

    def finish(self) -> None:
        """Write what was found.

        Raises:
            OSError: it cannot be written.
        """
        ...
