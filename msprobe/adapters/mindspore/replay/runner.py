"""Run recorded calls of MindSpore again, in a dynamic graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import mindspore
import numpy as np

from msprobe.adapters.mindspore.recorded_names import read_names
from msprobe.adapters.mindspore.replay.functions import RecordedFunctions, is_random
from msprobe.adapters.mindspore.tensors.bfloat16 import widened
from msprobe.core.backend.replaying import (
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    PreparedCall,
    mapped,
)
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import ignored, let_through
from msprobe.core.store.safe_files import replacement_file
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype, mindspore_name

_TARGETS = {"cpu": "CPU", "gpu": "GPU", "cuda": "GPU", "npu": "Ascend", "ascend": "Ascend"}
_FLOATS = (DtypeKind.FLOAT, DtypeKind.COMPLEX)


def make_replayer(custom: Mapping[str, Any] | None = None) -> MindSporeReplayer:
    """Return what runs the calls of MindSpore again, and those of the user's modules (prefix -> module)."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    table = read_names()
    return MindSporeReplayer(RecordedFunctions([each for each in table.values() if isinstance(each, dict)], custom))


class Functions(Protocol):
    """Finds functions by the names of calls."""

    def find(self, prefix: str, api: str, attributes: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """Return the function that a name stands for, or the operator that is made of attributes; raises
        CannotReplayError."""
        ...

    def expression(self, prefix: str, api: str, attributes: str = "") -> str:
        """Return the expression that names it; raises CannotReplayError."""
        ...


class MindSporeReplayer:
    """Implements ``Replayer`` for MindSpore. A device is a target: ``cpu``, ``gpu`` or ``npu``, with a number or not.

    MindSpore has one target for a process. On another one than the CPU, the golden call runs on the CPU by a change of
    the target, which no machine with such a device has tried.
    """

    suffix = ".npy"

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def best_device(self) -> str:
        target = str(mindspore.get_context("device_target"))
        return next((name for name, known in _TARGETS.items() if known == target), "cpu")

    def check_device(self, device: str) -> None:
        target = _TARGETS.get(device.partition(":")[0].lower())
        if target is None or (target != "CPU" and target != mindspore.get_context("device_target")):
            raise MsprobeException(
                MsprobeException.INVALID_PARAM_ERROR,
                f"-d {device}: this MindSpore runs on {mindspore.get_context('device_target')}; give cpu, or that one",
            )

    def function(self, call: PreparedCall) -> Callable[..., Any]:
        attributes = None if call.attributes is None else mapped(dict(call.attributes), _made)
        return self._functions.find(call.prefix, call.api, attributes)

    def expression(self, call: PreparedCall, attributes: str = "") -> str:
        self.function(call)
        return self._functions.expression(call.prefix, call.api, attributes)

    def is_random(self, prefix: str, api: str) -> bool:
        return is_random(api)

    def run(self, call: PreparedCall, device: str) -> Execution:
        function = self.function(call)
        try:
            with _on(device):
                if call.program_state is None:
                    mindspore.set_seed(call.seed)
                return _run(function, call)
        except CannotReplayError:
            raise
        except Exception as failure:
            let_through(failure)
            _forget_error()
            raise CannotReplayError(error_text(failure)) from failure

    def save(self, tensor: HeldTensor, path: Path) -> None:
        with replacement_file(path) as file:
            np.save(file, tensor.values, allow_pickle=False)


def _forget_error() -> None:
    """Wait for the kernels that still run: the error of one of them would be raised by a later call."""
    with ignored(Exception):
        (mindspore.Tensor(0.0) + 0.0).asnumpy()


@contextmanager
def _on(device: str) -> Iterator[None]:
    """Run the block on a target."""
    before, target = mindspore.get_context("device_target"), _TARGETS[device.partition(":")[0].lower()]
    if target == before:
        yield
        return
    mindspore.set_context(device_target=target)
    try:
        yield
    finally:
        mindspore.set_context(device_target=before)


def _run(function: Callable[..., Any], call: PreparedCall) -> Execution:
    leaves = [_tensor(each) for each in call.tensors()]
    asked = [number for number, leaf in enumerate(leaves) if _is_float(leaf)] if call.gradients else []

    def results(*given: Any) -> list[Any]:
        """Call the function with other tensors in the places of those that a gradient is asked of."""
        rest = list(leaves)
        for number, tensor in zip(asked, given, strict=True):
            rest[number] = tensor * 1 if _writes(call.api) else tensor
        remaining = iter(rest)

        def made(argument: HeldTensor | Constant) -> Any:
            return _constant(argument) if isinstance(argument, Constant) else next(remaining)

        args, kwargs = mapped(list(call.args), made), mapped(dict(call.kwargs), made)
        result = function(*args, **kwargs)
        return results_of(args[0] if result is None and args else result)

    outputs = [held(value) for value in results(*(leaves[number] for number in asked))]
    able = tuple(number for number, value in enumerate(outputs) if _is_differentiable(value))
    gradients = _gradients(results, [leaves[number] for number in asked], call, (able, outputs)) if asked else []
    by_leaf = dict(zip(asked, gradients, strict=False))
    return Execution(outputs, [by_leaf.get(number) for number in range(len(leaves))] if gradients else [], able)


def _gradients(
    results: Callable[..., list[Any]], asked: list[Any], call: PreparedCall, found: tuple[tuple[int, ...], list[Any]]
) -> list[HeldTensor | None]:
    able, outputs = found
    places = [
        (place, gradient)
        for place, gradient in zip(able, call.gradients, strict=False)
        if gradient is not None and outputs[place].values.shape == gradient.values.shape
    ]
    if not places:
        return []

    def chosen(*given: Any) -> Any:
        values = results(*given)
        return tuple(values[place] for place, _ in places)

    _, pull = mindspore.vjp(chosen, *asked)
    arriving = tuple(_tensor(gradient).astype(_dtype(outputs[place].dtype)) for place, gradient in places)
    back = pull(*arriving)
    back = back if isinstance(back, tuple) else (back,)
    return [None if gradient is None else held(gradient) for gradient in back]


def _writes(api: str) -> bool:
    """Return whether a function writes its first argument, which must not be an input of the gradient then."""
    return (api.endswith("_") and not api.startswith("__")) or api.startswith("__i") or api == "__setitem__"


def tensors_of(call: PreparedCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call."""
    return tuple(mapped(list(call.args), _made)), mapped(dict(call.kwargs), _made)


def _made(argument: HeldTensor | Constant) -> Any:
    return _constant(argument) if isinstance(argument, Constant) else _tensor(argument)


def _tensor(argument: HeldTensor) -> Any:
    values = np.ascontiguousarray(argument.values).reshape(argument.values.shape)
    dtype = _dtype(argument.dtype)
    known = find_dtype(argument.dtype)
    if known is not None and known.is_native:
        return mindspore.Tensor(values.copy(), dtype)
    return mindspore.Tensor(values.astype(np.float32)).astype(dtype)


def _dtype(name: str) -> Any:
    known = find_dtype(name)
    found = vars(mindspore).get(mindspore_name(known).lower()) if known is not None else None
    if known is not None and known.name == "bool":
        found = mindspore.bool_
    if found is None:
        raise CannotReplayError(f"this version of MindSpore has no dtype {name}")
    return found


def _constant(constant: Constant) -> Any:
    kind, value = constant.kind, constant.value
    if kind == "dtype":
        return _dtype(value)
    if kind == "size":
        return tuple(value)
    if kind == "slice":
        return slice(*value)
    if kind in ("device", "layout", "memory_format"):
        raise CannotReplayError(f"an argument of the kind {kind} is none of MindSpore")
    return Ellipsis if kind == "ellipsis" else value


def results_of(result: Any) -> list[Any]:
    """Return the results of a call in their order, containers unfolded: tensors and numbers; None for one that does
    not exist or is not compared, so that each has the same position in every execution."""
    kinds = (mindspore.Tensor, bool, int, float)
    return [value if isinstance(value, kinds) else None for value in leaves_of(result)]


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield what lists, tuples and mappings hold, in its order."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves_of(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from leaves_of(each)
    else:
        yield value


def _is_float(tensor: Any) -> bool:
    known = find_dtype(str(tensor.dtype))
    return known is not None and known.kind in _FLOATS


def _is_differentiable(value: Any) -> bool:
    known = find_dtype(value.dtype) if isinstance(value, HeldTensor) else None
    return known is not None and known.kind in _FLOATS


def held(value: Any) -> Any:
    """Return the values of a tensor, which may share its memory; anything else as it is.

    Raises:
        CannotReplayError: values of its dtype are not compared.
    """
    if not isinstance(value, mindspore.Tensor):
        return value
    known = find_dtype(str(value.dtype))
    if known is None:
        raise CannotReplayError(f"results of dtype {value.dtype} are not compared")
    values = value.asnumpy() if known.is_native else widened(value)
    return HeldTensor(np.asarray(values), known.name)
