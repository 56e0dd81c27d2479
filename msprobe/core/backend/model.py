"""A backend: a frozen bundle of capabilities. None means that the framework does not offer the capability."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.backend.protocols import (
    ApiTap,
    CollectiveTap,
    GradientTap,
    GraphTap,
    InputTap,
    KernelDump,
    ModuleTap,
    NpuRuntime,
    OperatorTap,
    OptimizerTap,
    Runtime,
    TensorOps,
    Values,
)


@dataclass(frozen=True, slots=True)
class Backend:
    """Everything that core may ask of one framework.

    Args:
        graphs: sees the modules inside compiled graphs; None where every call passes through Python.
        operators: is there only where the configuration asks for operators.
        kernels: is there only at level L2 on an NPU: core chooses the call around which kernels are dumped.
        kernel_dump: is there only at level L2 of a framework whose runtime dumps the kernels of whole steps by itself.
            It asks the runtime, and raises MsprobeException when that cannot be done any more.
        apis_in_models: a model given to ``start`` brings more functions to record, also at level L1.
        ranked: its functions have a risk, so that ``risk_level`` leaves some of them out.
        header: more fields for the header of dump.json.
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
    collectives: CollectiveTap | None = None
    graphs: GraphTap | None = None
    apis_in_models: bool = False
    ranked: bool = True
    operators: OperatorTap | None = None
    kernels: NpuRuntime | None = None
    kernel_dump: Callable[[], KernelDump] | None = None
    header: Mapping[str, str] = field(default_factory=dict)

    def take_over(self, earlier: Backend, focused: Iterable[tuple[Any, str]] = ()) -> None:
        """Continue for a backend that this one replaces.

        Args:
            earlier: the backend that is replaced; the functions registered with it are recorded from now on.
            focused: modules and their names, which alone are recorded.
        """
        if self.modules is not None:
            for module, name in focused:
                self.modules.focus(module, name)
        for owner, name, prefix in earlier.apis.registered() if earlier.apis is not None else ():
            if self.apis is not None:
                self.apis.add(owner, name, prefix)
