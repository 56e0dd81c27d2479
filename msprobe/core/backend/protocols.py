"""What a framework must offer, as small capabilities. Requirements these meet:

- core works without any framework installed, so a capability is handed in, never imported;
- a capability is asked for by the session once per start, and by the collector thousands of times a step: the methods
  on
  that path (``describe``, ``prepare``, ``attach``) take and give plain values and allocate little;
- taps are made with the session's relay and report to whatever observer it holds at the moment, one per step;
- a framework that lacks a capability leaves it out (None in the Backend), and the configuration check names what is
  missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msprobe.core.capture.describe import Expansion, Handler

T_contra = TypeVar("T_contra", contravariant=True)
Template = tuple[Sequence[Any], Mapping[str, Any]]
"""The arguments' shape, positional and by keyword: slots (ints) where a gradient can arrive, None elsewhere."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The version of MindSpore and how it is set up. What can be collected depends on it.

    Args:
        graph_mode: whether graphs are static (``GRAPH_MODE``).
        jit_level: ``O0``, ``O1`` or ``O2``; "" when the user chose none.
        device: the target device, such as ``CPU`` or ``Ascend``.
        version: the version of MindSpore as numbers, such as ``(2, 10, 0)``.
    """

    graph_mode: bool
    jit_level: str
    device: str
    version: tuple[int, ...]

    @property
    def whole_graph(self) -> bool:
        """Whether a graph is compiled and run as one piece (O2) and not kernel by kernel."""
        return self.graph_mode and self.jit_level == "O2"

    @property
    def on_cpu(self) -> bool:
        """Whether the target device is the CPU."""
        return self.device == "CPU"


class TensorOps(Protocol[T_contra]):
    """Facts and numbers of one tensor."""

    suffix: str
    """The ending of saved tensor files, such as ``.pt``."""

    def describe(self, tensor: T_contra, statistics: bool) -> dict[str, Any]:
        """The node of a tensor in the order of dump.json: type, dtype, shape, Max, Min, Mean, Norm, requires_grad.

        The statistics are there at once, or null now and filled in at the next ``settle``; without ``statistics``
        they are left out.
        """
        ...

    def describe_with_checksum(self, tensor: T_contra, statistics: bool, kind: str) -> dict[str, Any]:
        """``describe`` with the ``checksum`` of that kind as the last key, ``md5``: in one pass where it can be."""
        ...

    @property
    def outstanding(self) -> bool:
        """Whether statistics are still on their way from a device."""
        ...

    def settle(self) -> None:
        """Fill in every statistic still outstanding, with one copy from the device for all of them."""
        ...

    def project(self, tensor: T_contra, node: dict[str, Any]) -> None:
        """Add the key ``Projection`` of ``core.tensors.projection`` to the node; as the statistics, it may be null
        until the next ``settle``.
        """
        ...

    def checksum(self, tensor: T_contra, kind: str) -> str | None:
        """The ``crc32`` or ``xor`` of the tensor's row-major bytes; None when it has no data."""
        ...

    def snapshot(self, tensor: T_contra) -> tuple[Callable[[], Any], int] | None:
        """Copy the tensor's values as they are at this point of the program; None when it has no data.

        Returns a function that gives the copy once it is complete (a copy from a device may still be on its way), and
        the bytes it takes. ``checksum`` and ``save`` of the copy are those of the tensor.
        """
        ...

    def save(self, tensor: T_contra, path: Path) -> bool:
        """Write the tensor's values to ``path``; False when it has no data to write. Raises OSError."""
        ...


class Values(Protocol):
    """The framework's own kinds of argument values."""

    def is_tensor(self, kind: type) -> bool:
        """Whether instances of ``kind`` are tensors of this framework."""
        ...

    def handlers(self) -> Mapping[type, Handler | Expansion]: ...

    def keyed(self) -> Mapping[str, Handler]: ...


class Runtime(Protocol):
    """Where and how this process runs."""

    def rank(self) -> int | None:
        """The rank in the job, or None when there is none (yet)."""
        ...

    def recomputing(self) -> bool:
        """Whether the present call repeats a forward inside a backward pass, as activation checkpointing does."""
        ...

    def in_written_backward(self) -> bool:
        """Whether a backward function written by the user is running."""
        ...

    def expected(self, error: BaseException) -> bool:
        """Whether an exception is the framework's own way to leave a call early, not an error."""
        ...

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        """Report the begin of each forward call of ``model`` (the first of a list) until the returned one is called.

        Raises MsprobeException when it is no model.
        """
        ...


class GradientReceiver(Protocol):
    """Takes the gradients of one call as the backward pass brings them. ``errors`` notes what goes wrong with them."""

    errors: Any

    def expect(self, outputs: int) -> None:
        """Told once, before any gradient: how many outputs of the call can bring one."""
        ...

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """All gradients of the call at once: of its outputs in order, of its inputs by slot."""
        ...

    def grad_output(self, position: int, gradient: Any) -> None:
        """The gradient of output ``position``."""
        ...

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """The gradients of the inputs by the slots of the prepared template; the backward of the call is done."""
        ...


class GradientTap(Protocol):
    """Observes the backward pass of single calls without changing the graph."""

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any | None:
        """Before a call: note where the gradients of its arguments will flow; None when nothing needs a gradient."""
        ...

    def attach(self, prepared: Any, result: Any, receiver: GradientReceiver, announced: bool = False) -> None:
        """After the call: report its gradients to ``receiver`` when a backward pass comes by.

        ``announced``: tell of the gradients of the outputs before the call's backward runs, not together with the rest.
        """
        ...

    def template(self, prepared: Any) -> Template:
        """Where the gradients of the arguments go."""
        ...

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        """Report every gradient of one tensor until the returned function is called; None when it can have none."""
        ...


class ApiTap(Protocol):
    """The wrapped functions of the framework."""

    def attach(self) -> AbstractContextManager[None]:
        """Report the calls of all listed functions inside the returned context, and leave no trace after."""
        ...

    def reset(self) -> None:
        """Count the calls from 0 again."""
        ...

    def add(self, owner: Any, name: str, prefix: str) -> None:
        """Wrap one more function from now on."""
        ...

    def remove(self, owner: Any, name: str) -> None: ...

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        """What ``add`` was called with and ``remove`` not: owner, name, prefix."""
        ...


class OperatorTap(Protocol):
    """The operators below the functions, as the framework dispatches them."""

    def attach(self) -> AbstractContextManager[None]:
        """Report operators inside the returned context, those inside observed calls too, none of the tool's own."""
        ...

    def reset(self) -> None:
        """Count the calls from 0 again."""
        ...


class NpuRuntime(Protocol):
    """The part of an NPU's runtime that dumps kernels. Every method may raise RuntimeError."""

    def synchronize(self) -> None:
        """Wait for everything that was given to the device."""
        ...

    def init_dump(self) -> None:
        """Begin: nothing is dumped before ``set_dump``."""
        ...

    def set_dump(self, path: str) -> None:
        """Dump what runs from now on, as the acl.json at ``path`` says."""
        ...

    def finalize_dump(self) -> None:
        """End what ``init_dump`` began."""
        ...


class ModuleTap(Protocol):
    """The modules of the models given to ``start``."""

    def adopt(self, model: Any) -> None:
        """Name the modules of ``model`` (a module or a list of them). Raises MsprobeException for anything else."""
        ...

    def attach(self) -> AbstractContextManager[None]:
        """Report module calls inside the returned context."""
        ...

    def focus(self, module: Any, name: Any) -> None:
        """Know only ``module``, under ``name``, and others focused, until ``focus_end``; models adopted meanwhile are
        known then. Raises MsprobeException for a wrong type.
        """
        ...

    def focus_end(self) -> None: ...

    def attach_gradients(self) -> Callable[[], None]:
        """Report parameter gradients until the returned function is called."""
        ...

    def reset(self) -> None: ...


class CollectiveTap(Protocol):
    """The communication between the processes of a job."""

    def attach(self) -> AbstractContextManager[None]:
        """Report communication, and when this process is given its rank, inside the returned context."""
        ...

    def reset(self) -> None:
        """A new step: count the calls from 0 again, and wait for nothing that began before."""
        ...


class OptimizerTap(Protocol):
    """The parts of a step that are neither forward nor backward."""

    def attach(self) -> AbstractContextManager[None]:
        """Report the begin and end of optimizer steps and of gradient clipping."""
        ...


class InputSource(Protocol):
    """Knows which module calls get recorded inputs, and where those lie."""

    def next_call(self, stem: str) -> str | None:
        """A module is called: the name of the call when its inputs are to be replaced."""
        ...

    def file(self, place: str, suffix: str) -> Path | None:
        """The file of the tensor at ``place``, or None when it was not recorded."""
        ...


class InputTap(Protocol):
    """Replaces the inputs of module calls."""

    def attach(self, source: InputSource) -> AbstractContextManager[None]:
        """Feed the calls that ``source`` names inside the returned context."""
        ...
