"""What an executor is: it calls a named function on texts, somewhere, and hands back the answers as they come."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

Work = Callable[[str], str]


class Executor(Protocol):
    """Texts go in and come out, so that any process or machine with msprobe can do the work."""

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Call ``work`` (``module:function``, text to text) on every task; yields (number of task, answer) as they end.

        Raises:
            MsprobeException: what the work raised, or a worker was lost.
        """
        ...


def work_named(name: str) -> Work:
    """The function named ``module:function``."""
    module, _, function = name.partition(":")
    return cast(Work, getattr(importlib.import_module(module), function))
