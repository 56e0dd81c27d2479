"""A backend: a frozen bundle of capabilities. None says "this framework does not offer that"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msprobe.core.backend.protocols import (
    ApiTap,
    CollectiveTap,
    GradientTap,
    InputTap,
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
    """Everything core may ask of one framework.

    ``apis_in_models``: a model given to ``start`` brings more functions to record, also at level L1.

    ``operators`` is there only where the configuration asks for operators, ``kernels`` only at level L2 on an NPU.

    ``ranked``: its functions have a risk, so that ``risk_level`` leaves some of them out.
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
    apis_in_models: bool = False
    ranked: bool = True
    operators: OperatorTap | None = None
    kernels: NpuRuntime | None = None

    def take_over(self, earlier: Backend, focused: Iterable[tuple[Any, str]] = ()) -> None:
        """Record the functions that were registered with ``earlier``, whose place this one takes, and the modules that
        are ``focused``.
        """
        if self.modules is not None:
            for module, name in focused:
                self.modules.focus(module, name)
        for owner, name, prefix in earlier.apis.registered() if earlier.apis is not None else ():
            if self.apis is not None:
                self.apis.add(owner, name, prefix)
