"""Runs a compiled module's original once more, as it is, on copies: the program does not notice.

Inputs, parameters and buffers are detached copies, so that no gradient of the program changes and a running mean is not
moved twice. Random numbers are those that the compiled call could draw; afterwards the generators are as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

from msprobe.adapters.pytorch.replay.program_state import ProgramState

_DEVICES = ("cpu", "cuda", "npu")


@dataclass(frozen=True, eq=False, slots=True)
class EagerCall:
    """One call as it will be run again.

    Attributes:
        module: the original module.
        args, kwargs: copies of its arguments; tensors that need a gradient are leaves that need one.
        state: copies of parameters and buffers by name.
        before: the state of the program before the call.
        autocast: the kinds of devices for which autocast is on, with its types.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    state: dict[str, torch.Tensor]
    before: ProgramState
    autocast: tuple[tuple[str, torch.dtype], ...] = ()

    @classmethod
    def of(cls, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> EagerCall:
        """Return a copy of a call that is about to be made."""
        named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        state = {name: _leaf(one) for name, one in named.items()}
        given, keywords = tree_map(_leaf, (args, dict(kwargs)))
        kinds = (kind for kind in _DEVICES if hasattr(torch, kind) and torch.is_autocast_enabled(kind))
        autocast = tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds)
        return cls(module, given, keywords, state, ProgramState.now(), autocast)

    @property
    def inputs(self) -> list[torch.Tensor]:
        """Return the tensors of the arguments that need a gradient."""
        return [one for one in tensors_of((self.args, self.kwargs)) if one.requires_grad]

    @property
    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters that need a gradient."""
        return [one for one in self.state.values() if one.requires_grad]

    def run(self) -> Any:
        """Return what the original module returns."""
        with torch.compiler.set_stance("force_eager"):
            return self._run(self.module, self.state)

    def run_compiled(self, compiled: nn.Module) -> Any:
        """Return what a compiled form of the original module returns for this call."""
        return self._run(compiled, {f"_orig_mod.{name}": one for name, one in self.state.items()})

    def _run(self, module: nn.Module, state: dict[str, torch.Tensor]) -> Any:
        now = ProgramState.now()
        try:
            self.before.restore()
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.set_grad_enabled(self.before.grad))
                for kind, dtype in self.autocast:
                    stack.enter_context(torch.autocast(kind, dtype))
                return torch.func.functional_call(module, state, self.args, dict(self.kwargs))
        finally:
            now.restore()

    def in_float64(self) -> EagerCall:
        """Return the same call with all floats in float64."""
        args, kwargs = tree_map(_wide, (self.args, dict(self.kwargs)))
        state = {name: _wide(one) for name, one in self.state.items()}
        return EagerCall(self.module, args, kwargs, state, self.before, self.autocast)


@dataclass(eq=False, slots=True)
class WrongCall:
    """A call of a compiled module that was wrong.

    Attributes:
        compiled: the compiled module.
        call: the call, to be made again.
        given: the gradients of the results that need one; none before the backward pass.
    """

    compiled: nn.Module
    call: EagerCall
    given: list[Any] = field(default_factory=list)


def gradients(
    call: EagerCall, outputs: Sequence[torch.Tensor], given: Sequence[Any]
) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
    """Return the gradients of the inputs and of the parameters of a call.

    Args:
        call: the call.
        outputs: the tensors that it has returned and that need a gradient.
        given: their gradients; None for one that got none.
    """
    pairs = [(out, grad.to(out.dtype)) for out, grad in zip(outputs, given, strict=False) if grad is not None]
    wanted = [*call.inputs, *call.parameters]
    if not pairs or not wanted:
        return [], []
    outs, grads = zip(*pairs, strict=True)
    found = list(torch.autograd.grad(outs, wanted, grads, allow_unused=True))
    return found[: len(call.inputs)], found[len(call.inputs) :]


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value, in their order."""
    return [one for one in tree_flatten(value)[0] if isinstance(one, torch.Tensor)]


def _leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)
