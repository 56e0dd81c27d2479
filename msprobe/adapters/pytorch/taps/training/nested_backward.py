"""Gradients of parameters that several backward passes inside one bring, added up as the outer one does.

Reentrant checkpointing runs a backward pass of its own for each block. A parameter that several blocks share gets a
gradient from each of them, where the run without checkpointing gets their sum at once. So what arrives inside a nested
pass is kept until the outermost one ends, where the parameter may get more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd
from msprobe.core.interruption import let_through

_add = torch._C._VariableFunctions.add
_graph_task = torch._C._current_graph_task_id


@dataclass(slots=True)
class _Sum:
    thread: int
    gradient: torch.Tensor
    report: Callable[[Any], None]


class NestedBackward:
    """Follows the backward passes of all threads, and holds what nested ones bring."""

    def __init__(self) -> None:
        self._nested = threading.local()
        self._outermost: set[int] = set()  # threads in which one runs
        self._sums: dict[Any, _Sum] = {}

    def arrive(self, key: Any, more: Callable[[], bool], report: Callable[[Any], None], gradient: torch.Tensor) -> None:
        """Report a gradient, now or as a part of a sum.

        Args:
            key: of the parameter.
            more: returns whether a further pass may bring the parameter a gradient.
            report: takes the gradient, or the sum at the end of the outermost pass.
            gradient: what one pass brings.
        """
        held = self._sums.get(key)
        if held is not None:
            try:
                with WithoutAutograd():
                    held.gradient = _add(held.gradient, gradient)
            except RuntimeError as error:  # other layouts, such as sparse beside dense
                let_through(error)
                report(gradient)
        elif getattr(self._nested, "depth", 0) and more():
            self._sums[key] = _Sum(threading.get_ident(), gradient, report)
        else:
            report(gradient)

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Hold inside this context that a backward pass runs, which the program has begun in this thread."""
        return _RunningPass(self._nested, self._outermost, self._report_sums)

    def _report_sums(self) -> None:
        """Report what belongs to no pass that still runs: threads of the engine have no outermost pass."""
        for key, held in list(self._sums.items()):
            if held.thread not in self._outermost and self._sums.pop(key, None) is not None:
                held.report(held.gradient)


class _RunningPass:
    """The context of one backward pass. It is no generator, which could not pass on a StopIteration."""

    def __init__(self, nested: threading.local, outermost: set[int], report_sums: Callable[[], None]) -> None:
        self._nested = nested
        self._outermost = outermost
        self._report_sums = report_sums
        self._inside = False

    def __enter__(self) -> None:
        self._inside = _graph_task() != -1
        if self._inside:
            self._nested.depth = getattr(self._nested, "depth", 0) + 1
        else:
            self._outermost.add(threading.get_ident())

    def __exit__(self, *error: object) -> None:
        if self._inside:
            self._nested.depth -= 1
        else:
            self._outermost.discard(threading.get_ident())
            self._report_sums()
