"""Calls of torch's own table of operators (``op_db``), with the inputs that torch tests them with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.replay.functions import RecordedFunctions
from msprobe.adapters.pytorch.replay.runner import TorchReplayer
from msprobe.core.backend.replaying import Argument, CannotReplayError, Constant, HeldTensor, PreparedCall
from msprobe.core.tensors.dtypes import find_dtype

SAMPLES = 3
_PREFIX = "Operator"
_DRAWN = ("bernoulli", "fractional_max_pool", "multinomial", "normal", "rand", "uniform")
_UNWRITTEN = ("empty", "new_empty")


@dataclass(frozen=True)
class Sample:
    """A call, and what runs it."""

    call: PreparedCall
    replayer: TorchReplayer


@functools.cache
def operators() -> dict[str, Any]:
    """Return the operators that compute on a CPU what their inputs say, by name."""
    with _flags_left_open():
        from torch.testing._internal.common_methods_invocations import op_db

    named = {f"{each.name}.{each.variant_test_name}".rstrip("."): each for each in op_db}
    return {name: each for name, each in named.items() if not _is_left_out(name)}


@contextmanager
def _flags_left_open() -> Iterator[None]:
    """Undo that PyTorch's own test modules, once imported, forbid the whole process to set ``torch.backends.*``."""
    frozen = torch.backends.flags_frozen()
    yield
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = not frozen


def _is_left_out(name: str) -> bool:
    last = name.rpartition("functional.")[2]
    return name.startswith("jiterator") or last.startswith((*_DRAWN, *_UNWRITTEN))


def samples(name: str, dtype: torch.dtype) -> Iterator[Sample]:
    """Yield the first samples of an operator; none where it has no kernel for the dtype."""
    operator = operators()[name]
    if dtype not in operator.supported_dtypes("cpu"):
        return
    backward = dtype in operator.supported_backward_dtypes("cpu")
    replayer = TorchReplayer(RecordedFunctions([], {(_PREFIX, name): operator.op}))
    for each in islice(operator.sample_inputs("cpu", dtype, requires_grad=backward), SAMPLES):
        args = [_argument(value) for value in (each.input, *each.args)]
        kwargs = {key: _argument(value) for key, value in each.kwargs.items()}
        call = PreparedCall(_PREFIX, name, args, kwargs)
        yield Sample(_with_gradients(call, replayer) if backward else call, replayer)


def _with_gradients(call: PreparedCall, replayer: TorchReplayer) -> PreparedCall:
    """Return the call with drawn gradients of its results."""
    asked = PreparedCall(call.prefix, call.api, call.args, call.kwargs, [None])
    try:
        forward = replayer.run(asked, "cpu")
    except CannotReplayError:
        return call
    generator = np.random.default_rng(1)
    gradients = []
    for position in forward.differentiable:
        result = forward.outputs[position]
        values = generator.standard_normal(result.values.shape)
        if result.values.dtype.kind == "c":
            values = values + 1j * generator.standard_normal(result.values.shape)
        gradients.append(_held(torch.from_numpy(np.asarray(values)).to(getattr(torch, result.dtype))))
    return PreparedCall(call.prefix, call.api, call.args, call.kwargs, gradients)


def _argument(value: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        return _held(value)
    if isinstance(value, torch.Size):
        return Constant("size", tuple(value))
    if isinstance(value, (list, tuple)):
        return [_argument(each) for each in value]
    if isinstance(value, dict):
        return {key: _argument(each) for key, each in value.items()}
    kinds: list[tuple[type, str, Callable[[Any], Any]]] = [
        (torch.dtype, "dtype", lambda each: str(each).partition(".")[2]),
        (torch.device, "device", str),
        (slice, "slice", lambda each: (each.start, each.stop, each.step)),
    ]
    found = next(((name, text) for kind, name, text in kinds if isinstance(value, kind)), None)
    return Constant("plain", value) if found is None else Constant(found[0], found[1](value))


def _held(value: torch.Tensor) -> HeldTensor:
    tensor = value.detach()
    tensor = (tensor.to_dense() if tensor.layout != torch.strided else tensor).resolve_conj().resolve_neg()
    name = str(tensor.dtype).partition(".")[2]
    known = find_dtype(name)
    assert known is not None, name
    if not known.is_native:
        tensor = tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)
    return HeldTensor(tensor.numpy(), name, value.requires_grad)
