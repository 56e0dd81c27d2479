"""What a framework must offer so that a training of it can be watched (implemented in ``adapters/*/monitor``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msprobe.core.config.sections import GradProbeSection
from msprobe.monitor.grad_probe.files import GradientFacts

Remove = Callable[[], None]
"""Takes the hooks away again; it may be called twice."""


class TensorMeter(Protocol):
    """Measures tensors on their device. What it returns is complete after the next ``settle``."""

    def measure(self, tensor: Any, needs: frozenset[str]) -> dict[str, Any]:
        """Return what is measured of a tensor, by the keys of ``statistics.STATISTICS``; some of it may follow."""
        ...

    def measure_all(self, tensors: Sequence[Any], needs: frozenset[str]) -> list[dict[str, Any]]:
        """Return what is measured of each of these tensors; a device gets fewer launches than for one by one."""
        ...

    def settle(self) -> None:
        """Complete everything that was measured, with one copy from each device."""
        ...


class ModuleReports(Protocol):
    """Takes what passes a module."""

    @property
    def measures(self) -> bool:
        """Whether anything is measured in the present step; nothing else needs to be asked where it is not."""
        ...

    def forward(self, module: str, kind: str, values: Sequence[Any]) -> None:
        """Take the tensors of the inputs or outputs of a call (``kind`` is ``input`` or ``output``)."""
        ...

    def backward(self, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Take the gradients of a call: of its inputs, and of its outputs; None for one that there is not."""
        ...


class OptimizerReports(Protocol):
    """Is told of the steps of an optimizer."""

    def before_step(self, optimizer: Any) -> None:
        """Take note that an optimizer begins a step."""
        ...

    def after_step(self, optimizer: Any) -> None:
        """Take note that an optimizer has ended a step."""
        ...


class CollectiveReports(Protocol):
    """Takes the arguments of collectives."""

    @property
    def measures(self) -> bool:
        """Whether anything is measured in the present step."""
        ...

    def collective(self, name: str, line: str, tensors: Sequence[Any], before: bool) -> None:
        """Take the tensors of a collective before or after it ran, and the line of the program that called it."""
        ...


class FeatureReports(Protocol):
    """Takes features of modules."""

    def wants(self, name: str) -> bool:
        """Return whether the features of this call of a module are kept."""
        ...

    def take(self, name: str, values: Mapping[str, Any]) -> None:
        """Take the features of a module: tensors without dimensions, by the names of the statistics."""
        ...


@runtime_checkable
class FeatureWatch(Protocol):
    """What a ``TrainingWatch`` may offer beside: features of modules, each computed with a call of the module."""

    def watch_features(
        self, kind: str, modules: Mapping[str, Any], axes: str, reports: FeatureReports
    ) -> tuple[Remove, Sequence[str]]:
        """Report features of the modules that can have them.

        Args:
            kind: a key of ``statistics.FEATURES``.
            modules: by their names.
            axes: the order of the axes of query and key: ``s,b,h,d`` or ``b,s,h,d``.
            reports: takes the features of each call in training mode that it wants.

        Returns:
            what takes the hooks away, and the names of the modules that are watched.
        """
        ...


class TrainingWatch(Protocol):
    """Sees what a training computes. No method changes a gradient or a parameter."""

    def meter(self, eps: float, rounded: bool) -> TensorMeter:
        """Return what measures tensors.

        Args:
            eps: magnitudes below it count as zero.
            rounded: round sums to float32.
        """
        ...

    def rank(self) -> int:
        """Return the rank of this process; 0 without a process group."""
        ...

    def modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        """Yield the names and modules of a model, itself first under the name ``""``."""
        ...

    def parameters(self, model: Any) -> Iterable[tuple[str, Any]]:
        """Yield the names of the parameters that require a gradient, and the parameters."""
        ...

    def held_by(self, optimizer: Any) -> frozenset[int] | None:
        """Return the ids of the parameters that an optimizer holds; None for one that does not say so."""
        ...

    def gradient(self, parameter: Any) -> Any | None:
        """Return the gradient that an optimizer uses for a parameter."""
        ...

    def gradient_facts(self, name: str, gradient: Any, section: GradProbeSection) -> GradientFacts:
        """Return what the gradient probe keeps of a gradient."""
        ...

    def moments(self, optimizer: Any, parameter: Any) -> Mapping[str, Any]:
        """Return what an optimizer keeps for a parameter: ``exp_avg``, ``exp_avg_sq``; empty before its first step."""
        ...

    def adam_update(self, optimizer: Any, parameter: Any) -> tuple[Any, Any] | None:
        """Return the update and the ratio that Adam computes for a parameter; None for another optimizer."""
        ...

    def agreement(self, gradient: Any, moment: Any | None) -> Any:
        """Return the share of elements with equal signs, as a tensor without dimensions; 1 without a moment."""
        ...

    def watch_modules(self, modules: Mapping[str, Any], reports: ModuleReports, backward: bool) -> Remove:
        """Report the calls of these modules, and their gradients where ``backward`` says so."""
        ...

    def watch_gradients(self, parameters: Mapping[str, Any], report: Callable[[str, Any], None]) -> Remove:
        """Report each gradient as it has been added to a parameter on this rank."""
        ...

    def watch_optimizer(self, optimizer: Any | None, reports: OptimizerReports) -> Remove:
        """Report the steps of an optimizer; None stands for all of the process."""
        ...

    def watch_collectives(self, reports: CollectiveReports) -> Remove:
        """Report the collectives of this process."""
        ...
