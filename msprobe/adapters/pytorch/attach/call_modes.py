"""Whether a call of a model belongs to a training, to an evaluation, or to the data of one, by the modes in which it is
made, and by what else its thread does."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import is_traced


class Use(IntEnum):
    """The modes in which a model is called; the higher, the more likely the call belongs to a training."""

    INFERENCE = 0
    """Without autograd."""
    EVAL_MODE = 1
    """With autograd after ``model.eval()``: evaluation, or the training of a model with frozen statistics."""
    TRAINING = 2
    """With autograd, in training mode."""


class AutogradModes(threading.local):
    """Whether autograd is enabled, outside of the functions of autograd: while one runs, it is disabled for it.

    What a ``torch.autograd.Function`` calls belongs to where the function is called.
    """

    def __init__(self) -> None:
        self._outside: bool | None = None  # the mode around the outermost function that runs; None for none

    def use_of(self, model: nn.Module) -> Use:
        """Return the modes of a call of ``model`` that begins now."""
        if not (torch.is_grad_enabled() if self._outside is None else self._outside):
            return Use.INFERENCE
        return Use.TRAINING if model.training else Use.EVAL_MODE

    def observed_apply(self, original: Any) -> Any:
        """Return what stands for ``Function.apply``."""
        inner = original.__func__

        @functools.wraps(inner)
        def apply(function: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced() or self._outside is not None:
                return inner(function, *args, **kwargs)
            self._outside = torch.is_grad_enabled()
            try:
                return inner(function, *args, **kwargs)
            finally:
                self._outside = None

        return classmethod(apply)


class TrainingCalls:
    """Tell the calls of one model in a training from those in an evaluation: they have the highest modes seen so far.

    Calls without autograd count only in a program that has made no optimizer. When an optimizer steps on calls that
    were left out after ``model.eval()``, or on the only calls that there were, such calls count from then on.

    Args:
        training: whether the program has made an optimizer.
    """

    def __init__(self, training: bool = False) -> None:
        self._needed = Use.EVAL_MODE if training else Use.INFERENCE
        self._admitted: Use | None = None  # the highest modes of a call that counted
        self._left_out: Use | None = None  # the last call, when it did not count

    @property
    def only_left_out(self) -> bool:
        """Whether there were calls, and none of them counted."""
        return self._admitted is None and self._left_out is not None

    @property
    def last_left_out(self) -> bool:
        """Whether the last call did not count."""
        return self._left_out is not None

    def expect_training(self) -> None:
        """Note that the program has made an optimizer."""
        self._needed = max(self._needed, Use.EVAL_MODE)

    def exceeds(self, use: Use) -> bool:
        """Return whether every call that counted so far was less likely a training."""
        return self._admitted is not None and use > self._admitted

    def counts(self, use: Use) -> bool:
        """Return whether a call would belong to the training."""
        return use >= self._needed

    def admit(self, use: Use) -> bool:
        """Return whether a call belongs to the training, and remember it."""
        if use < self._needed:
            self._left_out = use
            return False
        self._needed = self._admitted = use
        self._left_out = None
        return True

    def learn_from_backward(self) -> None:
        """Take note that gradients were computed of the last call: one after ``model.eval()`` counts from then on."""
        if self._left_out is Use.EVAL_MODE:
            self._needed, self._left_out = self._left_out, None

    def learn_from_step(self) -> None:
        """Take note that an optimizer has stepped although the calls since its last step were left out."""
        if self._left_out is Use.EVAL_MODE or self.only_left_out:
            self._needed = self._left_out or Use.INFERENCE
            self._left_out = None


class ThreadUse(threading.local):
    """What this thread is inside of: calls of modules, compiled functions, data loaders; whether it calls models,
    whether it has made, or used, what trains any, and whether nothing of it is recorded."""

    inside = 0
    in_compiled = 0
    loading = 0
    calls = False
    trains = False
    left_out = False

    def prepares_data(self, leave_out: Callable[[bool], None], *, trained: bool, optimized: bool) -> bool:
        """Return whether a call of a model in this thread makes data for another one; then nothing of it is recorded.

        Args:
            leave_out: lets nothing of this thread be recorded, or everything.
            trained: whether the model is trained.
            optimized: whether the program has an optimizer, without which nobody can tell.
        """
        before, self.trains = self.left_out, self.trains or trained
        self.left_out = optimized and not self.trains and threading.current_thread() is not threading.main_thread()
        if self.left_out is not before:
            leave_out(self.left_out)
        return self.left_out
