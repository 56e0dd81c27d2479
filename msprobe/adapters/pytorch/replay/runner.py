"""Run recorded calls of PyTorch again, on any of its devices."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from msprobe.adapters.pytorch.recorded_names import read_names
from msprobe.adapters.pytorch.replay.functions import RecordedFunctions, is_random
from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.adapters.pytorch.tensors.saver import save_by_torch
from msprobe.core.backend.replaying import (
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    PreparedCall,
    mapped,
)
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import let_through
from msprobe.core.tensors.dtypes import find_dtype

_CASTS = {"bfloat16": torch.float32, "complex32": torch.complex64}
_LAYOUTS = {str(layout): layout for layout in (torch.strided, torch.sparse_coo)}
_MEMORY_FORMATS = {
    str(each): each
    for each in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d, torch.preserve_format)
}


def make_replayer(custom: Mapping[str, Any] | None = None) -> TorchReplayer:
    """Return what runs the calls of PyTorch again, and those of the user's modules (prefix -> module)."""
    table = read_names()
    return TorchReplayer(RecordedFunctions([table["apis"], table["extra"]], custom=custom))


class Functions(Protocol):
    """Finds functions by the names of calls."""

    def candidates(self, prefix: str, api: str) -> list[Callable[..., Any]]:
        """Return the functions that a name may stand for; raises CannotReplayError."""
        ...

    def expression(self, prefix: str, api: str) -> str:
        """Return the expression that names it; raises CannotReplayError."""
        ...


class TorchReplayer:
    """Implements ``Replayer`` for PyTorch."""

    suffix = ".pt"

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def best_device(self) -> str:
        for kind in ("npu", "cuda"):
            module = getattr(torch, kind, None)
            if module is not None and module.is_available():
                return kind
        return "cpu"

    def check_device(self, device: str) -> None:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
            let_through(error)
            raise MsprobeException(
                MsprobeException.INVALID_PARAM_ERROR,
                f"-d {device}: this machine has no such device ({error_text(error):.80}); "
                "give cpu, or a device of this torch such as cuda:0",
            ) from error

    def function(self, call: PreparedCall) -> Callable[..., Any]:
        return self._functions.candidates(call.prefix, call.api)[0]

    def expression(self, call: PreparedCall, attributes: str = "") -> str:
        return self._functions.expression(call.prefix, call.api)

    def is_random(self, prefix: str, api: str) -> bool:
        return is_random(prefix, api)

    def run(self, call: PreparedCall, device: str) -> Execution:
        error: CannotReplayError | None = None
        for function in self._functions.candidates(call.prefix, call.api):
            try:
                return _run(function, call, torch.device(device))
            except TypeError as wrong:  # arguments of another function of this name
                let_through(wrong)
                error = CannotReplayError(f"{call.prefix}.{call.api} takes other arguments: {error_text(wrong)}")
            except Exception as failure:
                let_through(failure)
                raise CannotReplayError(error_text(failure)) from failure
        raise error or CannotReplayError(f"{call.prefix}.{call.api} is no function")

    def save(self, tensor: HeldTensor, path: Path) -> None:
        values = _tensor(tensor, torch.device("cpu")).detach()
        save_by_torch(values, path)


def _run(function: Callable[..., Any], call: PreparedCall, device: torch.device) -> Execution:
    leaves: list[torch.Tensor] = []

    def made(argument: HeldTensor | Constant) -> Any:
        if isinstance(argument, Constant):
            return _constant(argument, device)
        leaf = _tensor(argument, device)
        leaves.append(leaf)
        # A leaf that asks for a gradient cannot be written in place; its clone can, which computes nothing.
        return leaf.clone() if argument.requires_grad and torch.is_grad_enabled() else leaf

    with _quiet(call, device), _moving_what_is_saved(call):
        args, kwargs = mapped(list(call.args), made), mapped(dict(call.kwargs), made)
        result = function(*args, **kwargs)
        # What returns nothing, as ``__setitem__``, has changed its first argument.
        asked = asked_results(function, args, kwargs)
        outputs = results_of(args[0] if result is None and args else result, asked)
        able = tuple(position for position, value in enumerate(outputs) if _is_differentiable(value))
        gradients = _gradients(leaves, [outputs[position] for position in able], call, device)
    return Execution([held(value) for value in outputs], gradients, able)


@contextmanager
def _quiet(call: PreparedCall, device: torch.device) -> Iterator[None]:
    """Seed the generators for the block, and give them back as they were; without warnings of torch."""
    state: ProgramState | None = call.program_state
    with (
        warnings.catch_warnings(),
        forked_generators(device),
        torch.inference_mode(False),
        torch.autocast(device.type, _dtype(call.autocast or "bfloat16"), enabled=bool(call.autocast)),
        torch.set_grad_enabled(bool(call.gradients) or (state is not None and state.grad)),
    ):
        warnings.simplefilter("ignore")
        if state is None:
            seed_generators(call.seed, device)
        else:
            state.restore()
        yield


@contextmanager
def forked_generators(device: torch.device) -> Iterator[None]:
    """Give the random generators of the CPU and of a device back as they were before the block."""
    devices = [device.index or 0] if device.type not in ("cpu", "meta") else []
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        yield


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators of the CPU and of a device.

    ``torch.manual_seed`` notes a stack trace for each kind of device that is not in use, at every call.
    """
    torch.default_generator.manual_seed(seed)
    if device.type not in ("cpu", "meta"):
        getattr(torch, device.type).manual_seed_all(seed)


@contextmanager
def _moving_what_is_saved(call: PreparedCall) -> Iterator[None]:
    """Move the elements that operators save for their backward pass by the round-off of the call. Hooks of the program
    for what is saved (activation checkpointing, offloading) do not see it."""
    if not call.saved_roundoff:
        allowed = torch._C._autograd._saved_tensors_hooks_is_enabled()  # not in transforms of torch.func
        with torch.autograd.graph.saved_tensors_hooks(_kept, _kept) if allowed else nullcontext():
            yield
        return
    generator = torch.Generator().manual_seed(call.seed)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        up = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device).bool()
        return torch.where(up, tensor.detach() * (1.0 + call.saved_roundoff), tensor * (1.0 - call.saved_roundoff))

    with torch.autograd.graph.saved_tensors_hooks(moved, lambda tensor: tensor):
        yield


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def tensors_of(call: PreparedCall, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call on a device."""

    def made(argument: HeldTensor | Constant) -> Any:
        return _constant(argument, device) if isinstance(argument, Constant) else _tensor(argument, device)

    return tuple(mapped(list(call.args), made)), mapped(dict(call.kwargs), made)


def _tensor(argument: HeldTensor, device: torch.device) -> torch.Tensor:
    values = np.asarray(
        argument.values
    )  # their order in memory is kept: by it random numbers are drawn, and sums added up
    if not values.flags.writeable or min(values.strides, default=0) < 0:
        values = values.copy(order="K")
    tensor = torch.from_numpy(values)
    tensor = tensor.to(device=device, dtype=_dtype(argument.dtype), copy=True)
    return tensor.requires_grad_(argument.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise CannotReplayError(f"this version of torch has no dtype {name}")
    return found


def _constant(argument: Constant, device: torch.device) -> Any:
    kind, value = argument.kind, argument.value
    if kind == "dtype":
        return _dtype(value)
    if kind == "device":
        return device
    if kind == "layout":
        return _LAYOUTS.get(value, torch.strided)
    if kind == "memory_format":
        return _MEMORY_FORMATS.get(value, torch.contiguous_format)
    if kind == "size":
        return torch.Size(value)
    if kind == "slice":
        return slice(*value)
    return Ellipsis if kind == "ellipsis" else value


def results_of(result: Any, asked: Sequence[bool] = ()) -> list[Any]:
    """Return the results of a call in their order, containers unfolded: tensors and numbers.

    None stands for a result that does not exist, so that each has the same position in every execution: the function
    returned None or something that is not compared, or was not asked for it (``asked_results``).
    """
    parts = result if len(asked) != 1 else [result]
    if asked and len(parts) == len(asked):
        result = [part if wanted else None for part, wanted in zip(parts, asked, strict=True)]
    kinds = (torch.Tensor, bool, int, float, complex)
    return [value if isinstance(value, kinds) else None for value in tree_leaves(result)]


def asked_results(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[bool]:
    """Return which results a call of an operator asks for; nothing where it asks for all.

    By the convention of torch an argument ``bool[N]`` of an operator with N results says so (``output_mask``). What the
    operator returns for the others, None or a tensor that it has computed anyway, depends on the kernel.
    """
    schema = getattr(getattr(function, "default", function), "_schema", None)
    if schema is None:
        return ()
    for position, argument in enumerate(schema.arguments):
        if len(schema.returns) == argument.N and str(argument.type) == "List[bool]":
            return kwargs.get(argument.name) or (args[position] if position < len(args) else ())
    return ()


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and (value.is_floating_point() or value.is_complex())


def _gradients(
    leaves: list[torch.Tensor], outputs: list[torch.Tensor], call: PreparedCall, device: torch.device
) -> list[HeldTensor | None]:
    given = [
        (output, gradient)
        for output, gradient in zip(outputs, call.gradients, strict=False)
        if gradient is not None and tuple(output.shape) == gradient.values.shape
    ]
    asked = [leaf for leaf in leaves if leaf.requires_grad]
    if not given or not asked:
        return []
    arriving = [_tensor(gradient, device).detach().to(output.dtype) for output, gradient in given]
    found = torch.autograd.grad([output for output, _ in given], asked, arriving, allow_unused=True)
    by_leaf = {id(leaf): gradient for leaf, gradient in zip(asked, found, strict=True)}
    gradients = (by_leaf.get(id(leaf)) for leaf in leaves)
    return [None if gradient is None else held(gradient) for gradient in gradients]


def held(value: Any) -> Any:
    """Return the values of a tensor, which may share its memory on a CPU; anything else as it is.

    Raises:
        CannotReplayError: values of its dtype are not compared.
    """
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    name = str(tensor.dtype).rpartition(".")[2]
    known = find_dtype(name)
    if known is None:
        raise CannotReplayError(f"results of dtype {name} are not compared")
    tensor = tensor.resolve_conj().resolve_neg().cpu()
    if not known.is_native:
        tensor = tensor.to(_CASTS.get(name, torch.float32))
    return HeldTensor(tensor.numpy(), name)
