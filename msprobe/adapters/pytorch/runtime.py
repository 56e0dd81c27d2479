"""The state of PyTorch's runtime: rank, recomputation and the backward pass."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.utils import checkpoint

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS
from msprobe.adapters.pytorch.taps.call_counter import CALL_COUNTER
from msprobe.adapters.pytorch.tensors.operation_modes import in_modes, outside_modes
from msprobe.adapters.pytorch.tensors.transforms import in_transform, outside_transforms
from msprobe.core.dump.session.debugger import counted_model

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
_casts = torch._C._is_any_autocast_enabled
_DEVICES = ("npu", "cuda", "cpu") if hasattr(torch, "npu") else ("cuda", "cpu")
_CHECKPOINTS = ("CheckpointFunctionBackward",)
_RESTORING = "_recomputation_hook."
_EARLY_EXITS = ("_StopRecomputationError",)


def _hooks_by_frames(_: bool) -> tuple[Any, ...] | None:
    """Return a hook of the non-reentrant checkpoint that recomputes in the calling frames; None outside of one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "unpack_hook" and frame.f_code.co_filename == checkpoint.__file__:
            return (checkpoint._recomputation_hook.__init__,)
        frame = frame.f_back
    return None


_saved_tensor_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", _hooks_by_frames)
"""Returns the hooks for saved tensors that are in force in this thread; older versions of PyTorch do not tell them."""


class TorchRuntime:
    """Implements ``Runtime``.

    Args:
        operators: whether operators are recorded too; then all calls of the backward pass are seen, not only those of
            backward functions that a user has written.
    """

    def __init__(self, operators: bool = False) -> None:
        self._operators = operators

    def rank(self) -> int | None:
        """Return the rank of this process; None without a process group."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return None

    def recomputing(self) -> bool:
        """Return whether this thread recomputes activations inside a backward pass.

        A backward pass runs without autograd. A recomputation enables it, or runs inside a checkpoint of either kind.
        """
        if _graph_task() == -1:
            return False
        if _saved_tensor_hooks(True) is not None or _node_name() in _CHECKPOINTS:
            return True
        # operators of torch's own nodes run with autograd under create_graph
        return torch.is_grad_enabled() and (not self._operators or _is_user_function())

    def repeats_without_gradients(self) -> bool:
        """Return whether non-reentrant checkpointing recomputes; what it runs again gets no gradients.

        A call that does nothing returns a tensor of the graph of the first run, whose gradient was recorded there.
        """
        hooks = _saved_tensor_hooks(True)
        return hooks is not None and getattr(hooks[0], "__qualname__", "").startswith(_RESTORING)

    def in_written_backward(self) -> bool:
        """Return whether a backward function runs whose calls are recorded."""
        if _graph_task() == -1:
            return False
        return self._operators or (_is_user_function() and _node_name() not in _CHECKPOINTS)

    def autograd(self) -> str | None:
        """Return ``grad``, ``no_grad`` or ``inference``; None in compiled code, which settled it before it runs."""
        if CALLS.beginning.now:
            return None
        if torch.is_inference_mode_enabled():
            return "inference"
        return "grad" if torch.is_grad_enabled() else "no_grad"

    def autocast(self) -> str | None:
        """Return the dtype of an ``autocast`` block; None outside of one, and in compiled code, which settled it."""
        if not _casts() or CALLS.beginning.now:
            return None
        kind = next((kind for kind in _DEVICES if torch.is_autocast_enabled(kind)), None)
        return None if kind is None else str(torch.get_autocast_dtype(kind)).removeprefix("torch.")

    def expected(self, error: BaseException) -> bool:
        """Return whether ``error`` is the one by which non-reentrant checkpointing ends a recomputation early."""
        return type(error).__name__ in _EARLY_EXITS

    def in_modes(self) -> bool:
        """Return whether a mode, or a transform of ``torch.func``, sees the operations of this thread."""
        return in_modes() or in_transform()

    @contextlib.contextmanager
    def outside_modes(self) -> Iterator[None]:
        """Let neither modes nor transforms see operations inside this context."""
        with outside_modes(), outside_transforms():
            yield

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        """Call ``report`` at each call of ``model`` until the returned function is called; the model is not changed."""
        return CALL_COUNTER.watch(counted_model(model, torch.nn.Module, "torch.nn.Module"), report)


def _is_user_function() -> bool:
    """Return whether the node that runs is a ``torch.autograd.Function`` that a user has written."""
    return isinstance(_node(), torch.autograd.function.BackwardCFunction)


def _node_name() -> str:
    return type(_node()).__name__
