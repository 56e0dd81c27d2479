"""The protocol of executors: it calls a named function on texts, in other processes, and yields the answers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

Work = Callable[[str], str]
"""A function that takes a task as text and returns the answer as text."""


class Executor(Protocol):
    """Texts go in and come out, so that any process or machine with msprobe can do the work."""

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Call ``work`` (``module:function``) on every task; yield (number of the task, answer) in the order they end.

        Raises:
            MsprobeException: the work raised it, or a worker process was lost.
        """
        ...


def load_work(name: str) -> Work:
    """Import and return the function that is named ``module:function``."""
    module, _, function = name.partition(":")
    return cast(Work, getattr(importlib.import_module(module), function))
