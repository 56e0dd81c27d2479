"""Let megatron-core train on a CPU: what it asks of ``torch.cuda`` is answered by the processor.

``import_megatron`` has to run before anything imports megatron: some of its modules look at ``torch.cuda`` when they
are imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch

_CPU = "cpu"
_MAKERS = ("zeros", "ones", "empty", "tensor", "arange")
_MODULES = (
    "megatron.core.models.gpt",
    "megatron.core.distributed",
    "megatron.core.optimizer",
    "megatron.core.pipeline_parallel.schedules",
)


def import_megatron() -> None:
    """Import the parts of megatron-core that the training uses, for a CPU and without compiled functions."""
    _answer_for_cuda()
    compiled = torch.compile
    torch.compile = _as_it_is
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Apex and Transformer Engine are not installed
            for name in _MODULES:
                importlib.import_module(name)
        experts: Any = importlib.import_module("megatron.core.transformer.moe.moe_utils")
        experts.te_general_gemm = None  # 0.16.1 sets it only where Transformer Engine is installed
        dispatcher: Any = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
        dispatcher.maybe_move_tensor_to_cpu = _as_numpy  # what lies on the CPU stays a tensor otherwise
    finally:
        torch.compile = compiled


class _Stream:
    """A stream, and its events: a processor does its work in order."""

    def wait_stream(self, _: object) -> None:
        pass

    def record_event(self) -> _Stream:
        return self

    def synchronize(self) -> None:
        pass


def _answer_for_cuda() -> None:
    cuda: Any = torch.cuda
    stream = _Stream()
    cuda.Stream = lambda *_, **__: stream
    cuda.current_stream = cuda.default_stream = lambda *_: stream
    cuda.stream = contextlib.nullcontext
    cuda.current_device = lambda: _CPU
    cuda.synchronize = lambda *_: None
    cuda.default_generators = {_CPU: torch.default_generator}
    cuda._lazy_call = lambda call, **_: call()
    cuda.manual_seed = lambda seed: torch.default_generator.manual_seed(seed)
    for owner in (cuda, cuda.random):
        owner.get_rng_state = lambda *_, **__: torch.default_generator.get_state()
    for name in _MAKERS:
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    torch.Tensor.type = _type_on_cuda(torch.Tensor.type)  # type: ignore[method-assign]


def _as_it_is(function: Any = None, **_: Any) -> Any:
    return function if function is not None else _as_it_is


def _on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        if "cuda" in str(kwargs.get("device")):
            kwargs["device"] = _CPU
        return make(*args, **kwargs)

    return made


def _type_on_cuda(type_of: Callable[..., Any]) -> Callable[..., Any]:
    """Megatron's optimizer asserts that gradients lie on a GPU by the name of their type."""

    @functools.wraps(type_of)
    def type_or_cast(self: torch.Tensor, dtype: Any = None, **kwargs: Any) -> Any:
        if dtype is not None:
            return type_of(self, dtype, **kwargs)
        return type_of(self).replace("torch.", "torch.cuda.")

    return type_or_cast


def _as_numpy(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
    del record_stream
    return tensor.numpy() if as_numpy and isinstance(tensor, torch.Tensor) else tensor
