"""Gradients that an optimizer step has used and that the program adds to without clearing them.

Nothing is measured for this: a gradient that nobody changes keeps its address and its version. So what a step left is
recognised at the next backward pass, and again at the next step. Only where a gradient seems to be kept are a few
elements read, because ``parameter.grad.data.zero_()`` clears it without a new version.

Where several threads compute gradients nothing is followed (``GradientThreads``).
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch

from msprobe.adapters.pytorch.taps.training.gradient_threads import GradientThreads
from msprobe.core.interruption import let_through

_SAMPLES = 4
_State = tuple[int, int]


class _Kept(NamedTuple):
    """The parameter, its gradient as it was last seen, and whether a backward pass has added to it."""

    parameter: weakref.ref[torch.Tensor]
    state: _State
    added: bool = False


class KeptGradients:
    """Follows the gradients of parameters from one optimizer step to the next.

    Args:
        threads: the threads that compute gradients.
    """

    def __init__(self, threads: GradientThreads) -> None:
        self._threads = threads
        self._kept: dict[int, _Kept] = {}

    def step_done(self, optimizer: Any) -> None:
        """Remember the gradients that a step has just used."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = _state(parameter)
                if state is None:
                    self._kept.pop(id(parameter), None)
                else:
                    self._kept[id(parameter)] = _Kept(weakref.ref(parameter), state)

    def before_backward(self) -> None:
        """Forget the gradients that were cleared or changed since they were last seen."""
        with self._threads.sole() as readable:
            followed = list(self._kept.items()) if readable else []
            self._kept = {key: kept for key, kept in followed if _state(kept.parameter()) == kept.state}
            present = [kept.parameter() for kept in list(self._kept.values())[:_SAMPLES]]
            if present and not any(_has_value(parameter) for parameter in present):
                self._kept.clear()

    def after_backward(self) -> None:
        """Note which of the gradients the backward pass has added to."""
        with self._threads.sole() as readable:
            followed, self._kept = list(self._kept.items()) if readable else [], {}
            for key, kept in followed:
                state = _state(kept.parameter())
                if state is not None and state[0] == kept.state[0]:
                    self._kept[key] = kept if state == kept.state else _Kept(kept.parameter, state, added=True)

    def at_step(self, optimizer: Any) -> list[torch.Tensor]:
        """Return the parameters whose gradient, which a step is about to use, still holds that of an earlier step."""
        found = []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                kept = self._kept.get(id(parameter))
                state = None if kept is None else _state(parameter)
                if kept is not None and kept.added and state is not None and state[0] == kept.state[0]:
                    found.append(parameter)
        return found


def _state(parameter: torch.Tensor | None) -> _State | None:
    """Return address and version of a gradient; None without one, or where these say nothing."""
    gradient = None if parameter is None else parameter.grad
    if gradient is None or gradient.layout is not torch.strided:
        return None
    try:
        return gradient.data_ptr(), gradient._version
    except RuntimeError as error:  # no memory of its own
        let_through(error)
        return None


def _has_value(parameter: torch.Tensor | None) -> bool:
    return parameter is not None and parameter.grad is not None and bool(parameter.grad.any())
