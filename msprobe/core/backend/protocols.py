"""What a framework must offer, as small capabilities. They meet these requirements:

- Core works without any framework installed, so a capability is passed in and never imported.
- The collector uses some methods thousands of times a step: these take and return plain values and allocate little.
- Taps are made with the session's ``CurrentObserver``, and report to the observer of the present step, which it holds.
- A capability that a framework lacks is None in the ``Backend``; the check of the configuration names it (``Support``).

Read ``Backend`` first, the last class: the bundle of all capabilities, whose protocols stand above it.
``docs/developing/add-a-backend.md`` shows how a framework is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msprobe.core.backend.captured_graphs import CaptureOps
from msprobe.core.backend.kernel_runtimes import KernelDump, NpuRuntime
from msprobe.core.backend.live_functions import LiveFunctions
from msprobe.core.backend.perturbation import Perturbation
from msprobe.core.capture.collectives import Arrivals
from msprobe.core.capture.describe import Expansion, Handler
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.wrap import Arguments
from msprobe.core.tensors.input_parts import InputPart

T_contra = TypeVar("T_contra", contravariant=True)
Template = tuple[Sequence[Any], Mapping[str, Any]]
"""The structure of the arguments, positional and by keyword: a slot (int) where a gradient can arrive, else None."""


# ---- tensors and arguments


class TensorOps(Protocol[T_contra]):
    """Measures and saves single tensors."""

    suffix: str
    """The suffix of saved tensor files, such as ``.pt``."""

    @property
    def arrivals(self) -> Arrivals | None:
        """The tensors that are still being received; None where the framework has none."""

    def describe(self, tensor: T_contra, statistics: bool, projection: bool = False) -> dict[str, Any]:
        """Return the node of a tensor: type, dtype, shape, Max, Min, Mean, Norm, requires_grad, as in dump.json.

        The statistics are numbers at once, or null now and filled in at the next ``settle``. Without ``statistics``
        they are left out. With ``projection`` the key ``Projection`` follows them where the pass over the memory that
        measures them gives it too; elsewhere it is left out, see ``project``.
        """

    def note_memory(self, tensor: T_contra, node: dict[str, Any]) -> None:
        """Add the keys ``memory`` and ``part`` (see ``core.store.record_walk``) to the node of a tensor with values.

        Two tensors of this process with one ``memory`` are views of one content. Where the framework does not say which
        memory a tensor lies in, nothing is added.
        """

    def below_transforms(self, tensor: Any) -> Any:
        """Return the tensor with memory that a tensor inside a transform of functions stands for; others as they are.

        Its shape is that of the record.
        """

    def describe_with_checksum(
        self, tensor: T_contra, statistics: bool, kind: str, projection: bool = False
    ) -> dict[str, Any]:
        """Return the node of ``describe`` with the checksum of this kind, ``md5``, of one pass where that can be."""

    @property
    def outstanding(self) -> bool:
        """Return whether statistics of some nodes are still being computed on a device."""

    def settle(self) -> None:
        """Fill in every outstanding statistic, with one copy from the device for all of them."""

    def project(self, tensor: T_contra, node: dict[str, Any]) -> None:
        """Add the key ``Projection`` (see ``core.tensors.projection``) to the node, whatever it takes.

        Like the statistics, it may be null until the next ``settle``.
        """

    def checksum(self, tensor: T_contra, kind: str) -> str | None:
        """Return the ``crc32`` or ``xor`` of the tensor's bytes in row-major order; None when it has no data."""

    def snapshot(self, tensor: T_contra) -> tuple[Callable[[], Any], int] | None:
        """Copy the tensor's values as they are at this point of the program; None when it has no data.

        Returns:
            A function that returns the copy once it is complete (a device may still be copying), and the size of the
            copy in bytes. ``checksum`` and ``save`` work on the copy as on the tensor.
        """
        ...

    def save(self, tensor: T_contra, path: str | Path) -> bool:
        """Write the tensor's values to ``path``; return False when it has no data. Raises OSError."""
        ...


class Values(Protocol):
    """Describes the framework's own types of arguments, such as a device or a dtype."""

    def is_tensor(self, kind: type) -> bool:
        """Return whether instances of ``kind`` are tensors of this framework."""
        ...

    def handlers(self) -> Mapping[type, Handler | Expansion]:
        """Return what describes the values of each type."""
        ...

    def by_keyword(self) -> Mapping[str, Handler]:
        """Return handlers for the values of certain keyword arguments, such as ``dtype``.

        A handler returns None to decline.
        """
        ...


# ---- the process


class Runtime(Protocol):
    """Knows where and how this process runs."""

    def rank(self) -> int | None:
        """Return the rank in the job, or None while there is none."""
        ...

    def recomputing(self) -> bool:
        """Return whether the present call repeats a forward in a backward pass, as activation checkpointing does."""
        ...

    def repeats_without_gradients(self) -> bool:
        """Return whether the present recomputation only restores values: gradients flow through the first call."""
        ...

    def in_written_backward(self) -> bool:
        """Return whether a backward function written by the user is running."""
        ...

    def autograd(self) -> str | None:
        """Return the autograd mode of this thread (``grad``, ``no_grad``, ``inference``); None where there is none."""
        ...

    def autocast(self) -> str | None:
        """Return the dtype to which this thread casts the arguments of some functions; None without automatic casts."""
        ...

    def expected(self, error: BaseException) -> bool:
        """Return whether the framework raises this exception to leave a call early, so that it is no error."""
        ...

    def in_modes(self) -> bool:
        """Return whether a mode sees the operations of this thread, such as a ``TorchDispatchMode``; it is cheap."""
        ...

    def outside_modes(self) -> AbstractContextManager[None]:
        """Return a context in which no mode sees operations; afterwards the modes are as they were before."""
        ...

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        """Report the begin of each forward call of ``model`` until the returned function is called.

        Args:
            model: a model, or a list of models, of which the first is watched.
            report: is called before each forward call.

        Raises:
            MsprobeException: ``model`` is no model of this framework.
        """
        ...


# ---- gradients


class GradientReceiver(Protocol):
    """Takes the gradients of one call as the backward pass computes them. ``errors`` is a log of what fails."""

    errors: Any

    def expect(self, outputs: int) -> None:
        """Take the number of outputs of the call that can have a gradient; called once, before any gradient."""
        ...

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """Take all gradients of the call at once: of its outputs in order, of its inputs by slot."""
        ...

    def grad_output(self, position: int, gradient: Any) -> None:
        """Take the gradient of output ``position``."""
        ...

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Take the gradient of one argument while other parts of the call's backward still run.

        It must not be kept: where a framework passes a gradient on, it copies one that somebody else holds.
        """
        ...

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """Take the other gradients of the inputs by the slots of the template; the backward of the call is done."""
        ...


class GradientTap(Protocol):
    """Observes the backward pass of single calls without changing the graph."""

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any | None:
        """Find out, before a call, where the gradients of its arguments will flow; None when none needs a gradient."""
        ...

    def attach(self, prepared: Any, result: Any, receiver: GradientReceiver, report_early: bool = False) -> None:
        """After the call: report its gradients to ``receiver`` when a backward pass comes by.

        ``report_early``: report the gradients of the outputs before the call's backward runs, not with the others.
        """
        ...

    def template(self, prepared: Any) -> Template:
        """Return the structure of the arguments, with the slots of their gradients."""
        ...

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        """Report every gradient of one tensor until the returned function is called.

        Returns None when the tensor cannot have a gradient.
        """
        ...


# ---- functions and operators


class ApiTap(Protocol):
    """Observes calls of the framework's functions."""

    def attach(self) -> AbstractContextManager[None]:
        """Report the calls of all listed functions inside the returned context; afterwards nothing is replaced."""
        ...

    def reset(self) -> None:
        """Count the calls from 0 again."""
        ...

    def add(self, owner: Any, name: str, prefix: str) -> None:
        """Observe one more function from now on."""
        ...

    def remove(self, owner: Any, name: str) -> None:
        """Stop observing a function that was added."""
        ...

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        """Return owner, name and prefix of the functions that were added and not removed."""
        ...


class OperatorTap(Protocol):
    """Observes the operators below the functions, as the framework dispatches them."""

    def attach(self) -> AbstractContextManager[None]:
        """Report operators inside the returned context, also inside observed calls, but not those of msprobe itself."""
        ...

    def reset(self) -> None:
        """Count the calls from 0 again."""
        ...


# ---- compiled graphs


class GraphReceiver(Protocol):
    """Takes what compiled graphs report about the modules inside them. A call has a number; 0 is no call."""

    def begin(self, site: Any, parts: Sequence[str] = ()) -> int:
        """Return the number of the call that begins; ``parts`` are the modules that its source calls, in order."""
        ...

    def value(self, number: int, spot: Any, tensor: Any) -> None:
        """Take one value of a call; it is measured before this returns."""
        ...

    def gradient(self, site: Any, key: str, tensor: Any) -> None:
        """Take the gradient of a parameter."""
        ...

    def end(self, number: int) -> None:
        """Note that a call is over."""
        ...

    def not_measured(self, site: Any, phase: str = "") -> None:
        """Note that calls of a module, or those of a phase, are not reported although the program has them."""
        ...

    def ran(self) -> None:
        """Note that the graph has run and that all its values have been reported."""
        ...


class GraphTap(Protocol):
    """The modules inside compiled graphs, which no Python call passes through."""

    def attach(self) -> AbstractContextManager[None]:
        """Report the modules of graphs that run inside the returned context."""
        ...


# ---- modules, communication, optimizers, inputs


class ModuleTap(Protocol):
    """Observes the modules of the models given to ``start``."""

    def adopt(self, model: Any) -> None:
        """Name the modules of ``model`` (a module or a list of them). Raises MsprobeException for anything else."""
        ...

    def attach(self) -> AbstractContextManager[None]:
        """Report module calls inside the returned context."""
        ...

    def focus(self, module: Any, name: Any) -> None:
        """Observe only ``module``, as ``name``, and other focused modules until ``focus_end``.

        Models that are adopted meanwhile are observed afterwards. Raises MsprobeException for a wrong type.
        """
        ...

    def focus_end(self) -> None:
        """Observe all adopted modules again."""
        ...

    def shared_parameters(self) -> list[list[str]]:
        """Return the names of parameters that share memory, in groups of two and more."""
        ...

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Return name and value of every parameter, each once."""
        ...

    def gradients(self, parameters: Sequence[Any], used_now: bool) -> list[Any] | None:
        """Return the present gradient of each parameter (None without one).

        Args:
            parameters: the parameters.
            used_now: whether the program itself is about to use these gradients in this thread. Otherwise the result
                is None where another thread computes gradients, because reading them is not safe then.
        """
        ...

    def attach_gradients(self) -> Callable[[], None]:
        """Report the gradients of parameters until the returned function is called."""
        ...

    def reset(self) -> None:
        """Count the calls from 0 again."""
        ...


class CollectiveTap(Protocol):
    """Observes the communication between the processes of a job."""

    def attach(self) -> AbstractContextManager[None]:
        """Report communication, and the moment at which this process gets its rank, inside the returned context."""
        ...

    def reset(self) -> None:
        """Begin a new step: count the calls from 0 again, and drop calls that have begun and not ended."""
        ...


class OptimizerTap(Protocol):
    """Observes the parts of a step that are neither forward nor backward."""

    def attach(self, scopes: bool) -> AbstractContextManager[None]:
        """Report optimizer steps with their settings inside the context; with ``scopes`` the calls inside them too."""
        ...


class InputSource(Protocol):
    """Knows which module calls get recorded inputs, and where the files of these inputs are."""

    def next_call(self, stem: str) -> str | None:
        """Count a call of the module ``stem``; return its name when its inputs are to be replaced, else None."""
        ...

    def part(self, place: str, suffix: str) -> InputPart | None:
        """Return the file of the tensor at ``place`` and the part that is wanted, or None when it was not recorded."""
        ...


class InputTap(Protocol):
    """Replaces the inputs of module calls."""

    def attach(self, source: InputSource) -> AbstractContextManager[None]:
        """Replace the inputs of the calls that ``source`` names inside the returned context."""


# ---- all capabilities of a framework


@dataclass(frozen=True, slots=True)
class Backend:
    """Everything that core may ask of one framework.

    Args:
        graphs: sees the modules inside compiled graphs; None where every call passes through Python.
        memory: returns a context that knows unwritten memory, for the time in which ``apis`` is not attached.
        operators: is there only where the configuration asks for operators.
        live: runs calls of the program again, for tasks that check them so.
        read_arguments: returns the arguments of a call, without values where the function does not read them.
        made_by_framework: tells whether the framework itself makes the call that begins, to spread a model over ranks.
        kernels: is there only at level L2 on an NPU: core chooses the call around which kernels are dumped.
        kernel_dump: is there at level L2 where the runtime dumps whole steps; raises MsprobeException when it cannot.
        apis_in_models: a model given to ``start`` brings more functions to record, also at level L1.
        read_marks: reads what the parameters of a model given to ``start`` say of their layout, at every level.
        site_of: returns what numbers the calls named so (it has ``calls``), such as ``Torch.relu``; None for others.
        capture_ops: measures tensors while a graph of a device is captured.
        has_risk_levels: its functions have a risk, so that ``risk_level`` leaves some of them out.
        header: more fields for the header of dump.json.
        version, device: of the framework, and its kind of device ("" where each tensor has its own).
    """

    name: str
    ops: TensorOps[Any]
    values: Values
    runtime: Runtime
    apis: ApiTap | None = None
    modules: ModuleTap | None = None
    gradients: GradientTap | None = None
    optimizers: OptimizerTap | None = None
    inputs: InputTap | None = None
    perturbation: Perturbation | None = None
    collectives: CollectiveTap | None = None
    graphs: GraphTap | None = None
    apis_in_models: bool = False
    read_marks: Callable[[Any], None] | None = None
    site_of: Callable[[str], Any] | None = None
    capture_ops: CaptureOps | None = None
    has_risk_levels: bool = True
    memory: Callable[[], AbstractContextManager[None]] | None = None
    operators: OperatorTap | None = None
    live: LiveFunctions | None = None
    read_arguments: Callable[[str, tuple[Any, ...], Mapping[str, Any]], Arguments] | None = None
    made_by_framework: Callable[[CallSite], bool] | None = None
    kernels: NpuRuntime | None = None
    kernel_dump: Callable[[], KernelDump] | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    device: str = ""

    def reset(self) -> None:
        """Number the calls from 0 again: a new step begins."""
        for tap in (self.apis, self.modules, self.collectives, self.operators):
            if tap is not None:
                tap.reset()

    def take_over(self, earlier: Backend, focused: Iterable[tuple[Any, str]] = ()) -> None:
        """Continue for a backend that this one replaces.

        Args:
            earlier: the backend that is replaced; the functions registered with it are recorded from now on.
            focused: modules and their names, which alone are recorded.
        """
        if self.perturbation is not None:
            self.perturbation.take_over(earlier.perturbation)
        if self.modules is not None:
            for module, name in focused:
                self.modules.focus(module, name)
        if self.apis is not None and earlier.apis is not None:
            for owner, name, prefix in earlier.apis.registered():
                self.apis.add(owner, name, prefix)
