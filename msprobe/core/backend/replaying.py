"""One call of a function that can be run again, and what a framework must offer to run it.

A ``PreparedCall`` is plain data: texts, numbers and numpy arrays. Who runs it makes tensors of its own of the arrays,
so one call can be run on several devices, in several number formats and with inputs that are moved a little.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class CannotReplayError(Exception):
    """A call cannot be run again; the message is the reason, one line."""


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """The values of a tensor.

    Attributes:
        values: the elements; bfloat16 and 8-bit floats as float32, which holds them exactly.
        dtype: the neutral name of the dtype, such as ``bfloat16`` (``core.tensors.dtypes``).
        requires_grad: whether a gradient is asked of it.
    """

    values: Array
    dtype: str
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is no tensor.

    Attributes:
        kind: ``plain`` (a number, a text, a truth value, None), ``dtype``, ``device``, ``layout``, ``memory_format``,
            ``size``, ``slice`` or ``ellipsis``.
        value: a plain value; of a dtype, a layout and a memory format the name; of a size and a slice their numbers.
    """

    kind: str
    value: Any = None


Argument = HeldTensor | Constant | list["Argument"] | tuple["Argument", ...] | dict[str, "Argument"]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call with all its values.

    Attributes:
        prefix, api: the function, as in the names of entries (``Functional``, ``softmax``).
        args, kwargs: the arguments.
        gradients: the gradients of the results that are floating-point tensors, in their order; None for one without a
            gradient. An empty list for a call without a backward pass.
        seed: the seed of the random generators.
        program_state: what the program was in when it made the call: the state of its random generators, its autograd
            mode; None for a recorded call, for which the generators are seeded.
        autocast: the dtype to which an autocast in force rounds the arguments of some functions; "" without one.
        saved_roundoff: how far each element that the forward pass keeps for the backward pass moves, relative to its
            size, up or down by chance.
        attributes: of an operator that is an object, the arguments that made it; None where the record does not say.
    """

    prefix: str
    api: str
    args: list[Argument]
    kwargs: dict[str, Argument]
    gradients: Sequence[HeldTensor | None] = ()
    seed: int = 0
    program_state: Any = None
    autocast: str = ""
    saved_roundoff: float = 0.0
    attributes: Mapping[str, Argument] | None = None

    def tensors(self) -> Iterator[HeldTensor]:
        """Yield the tensors among the arguments, in the order in which ``mapped`` visits them."""
        yield from _tensors(self.args)
        yield from _tensors(self.kwargs)


@dataclass(frozen=True, slots=True)
class Execution:
    """What a call returned.

    Attributes:
        outputs: the results in their order, containers unfolded: tensors, and numbers as they are; None for one that
            does not exist.
        gradients: of each tensor among the arguments, in the order of ``PreparedCall.tensors``, its gradient; None for
            one that has none.
        differentiable: the positions in ``outputs`` of the results that a gradient can be given for.
    """

    outputs: list[Any]
    gradients: list[HeldTensor | None] = field(default_factory=list)
    differentiable: tuple[int, ...] = ()


class OperatorHandler(Protocol):
    """Is shown the operators that a program runs."""

    def wants(self, name: str, signature: Hashable) -> bool:
        """Return whether a call is to be shown.

        Args:
            name: the operator, ``add.Tensor``.
            signature: equal for calls with tensors of the same dtypes and shapes.
        """
        ...

    def check(self, call: PreparedCall, execution: Execution) -> None:
        """Take a call with its inputs, and what the program got."""
        ...


class Replayer(Protocol):
    """Runs calls of one framework again.

    Attributes:
        suffix: of the files that ``save`` writes, with the dot.
    """

    suffix: str

    def best_device(self) -> str:
        """Return the name of the best device of this machine; the CPU is the last choice."""
        ...

    def check_device(self, device: str) -> None:
        """Raise MsprobeException where this machine has no such device."""
        ...

    def function(self, call: PreparedCall) -> Callable[..., Any]:
        """Return the function that a recorded call calls. Nothing is imported or evaluated for a name.

        Raises:
            CannotReplayError: there is no such function, or it must not be run.
        """
        ...

    def expression(self, call: PreparedCall, attributes: str = "") -> str:
        """Return the expression of Python by which a program names that function, behind ``import FRAMEWORK``.

        Args:
            call: the call.
            attributes: the arguments that made an operator that is an object, as source code.

        Raises:
            CannotReplayError: there is no such function, or no expression names it.
        """
        ...

    def is_random(self, prefix: str, api: str) -> bool:
        """Return whether the results depend on random numbers."""
        ...

    def run(self, call: PreparedCall, device: str) -> Execution:
        """Run the call on a device, with its backward pass where the call has gradients.

        Raises:
            CannotReplayError: the framework refuses it; the message is that of the framework in one line.
        """
        ...

    def save(self, tensor: HeldTensor, path: Path) -> None:
        """Write a tensor in its own dtype to a file that only this user can read.

        Raises:
            OSError: it cannot be written.
        """
        ...


def _tensors(argument: Argument) -> Iterator[HeldTensor]:
    if isinstance(argument, HeldTensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for each in argument:
            yield from _tensors(each)
    elif isinstance(argument, dict):
        for each in argument.values():
            yield from _tensors(each)


def is_index(argument: Argument) -> bool:
    """Return whether a list is the index of several dimensions, which is a tuple: it has a slice or an ellipsis."""
    return isinstance(argument, list) and any(
        isinstance(each, Constant) and each.kind in ("slice", "ellipsis") for each in argument
    )


def mapped(argument: Argument, change: Callable[[HeldTensor | Constant], Any]) -> Any:
    """Return an argument in which ``change`` has taken each tensor and each constant; an index is a tuple."""
    if isinstance(argument, (list, tuple)):
        parts = [mapped(each, change) for each in argument]
        return tuple(parts) if isinstance(argument, tuple) or is_index(argument) else parts
    if isinstance(argument, dict):
        return {name: mapped(each, change) for name, each in argument.items()}
    return change(argument)


def widened(values: Array) -> Array:
    """Return the elements as the widest numbers of their kind: float64, complex128, or as they are."""
    wide = {"f": np.float64, "c": np.complex128}.get(values.dtype.kind)
    return values if wide is None else values.astype(wide)
