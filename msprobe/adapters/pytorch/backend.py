"""The PyTorch backend: all capabilities put together. Core uses only ``make`` of this adapter."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import torch
import yaml

from msprobe.adapters.pytorch.api_tap import TorchApiTap
from msprobe.adapters.pytorch.api_taps import ApiTaps, PackageTap
from msprobe.adapters.pytorch.gradient_tap import TorchGradientTap
from msprobe.adapters.pytorch.input_tap import TorchInputTap
from msprobe.adapters.pytorch.kernel_dump import find_npu_runtime
from msprobe.adapters.pytorch.listed_apis import TorchListedApis
from msprobe.adapters.pytorch.module_tap import TorchModuleTap
from msprobe.adapters.pytorch.operator_tap import PREFIX, TorchOperatorTap
from msprobe.adapters.pytorch.optimizer_tap import TorchOptimizerTap
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.triton_tap import TritonTap
from msprobe.adapters.pytorch.values import TorchValues
from msprobe.adapters.pytorch.vendor_tap import VendorTap
from msprobe.core.backend.model import Backend
from msprobe.core.backend.protocols import CollectiveTap
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.selection.build import asks_for_operators, uses_risk_level
from msprobe.core.selection.risk import risk_test


def make(config: DumpConfig, relay: Relay, thread: ThreadState) -> Backend:
    """Return the capabilities that a session with this configuration needs; nothing is wrapped yet."""
    table = _table()
    level = config.risk_level if uses_risk_level(config) else "ALL"
    recorded = risk_test(level, table["risk"]["core"], table["risk"]["low"])
    kernels = find_npu_runtime() if config.level == "L2" else None
    operators = asks_for_operators(config, PREFIX) or (config.level == "L2" and kernels is None)
    apis = TorchApiTap([table["apis"], table["extra"]], recorded, relay, thread, operators)
    apis.listed = TorchListedApis(config)
    packages: list[PackageTap] = [
        VendorTap(table["packages"], recorded, relay, thread),
        TritonTap(table["triton"], recorded, relay, thread),
    ]
    gradients = TorchGradientTap(thread)
    modules = TorchModuleTap(relay, thread, gradients)
    return Backend(
        name="pytorch",
        ops=TorchTensorOps(config.precision),
        values=TorchValues(),
        runtime=TorchRuntime(operators),
        apis=ApiTaps(apis, packages),
        modules=modules,
        inputs=TorchInputTap(modules, thread),
        collectives=_collectives(config, table["distributed"], relay, thread),
        gradients=gradients,
        optimizers=TorchOptimizerTap(relay),
        operators=TorchOperatorTap(relay, thread) if operators else None,
        kernels=kernels,
    )


def _collectives(config: DumpConfig, names: list[str], relay: Relay, thread: ThreadState) -> CollectiveTap | None:
    if not torch.distributed.is_available():
        return None
    from msprobe.adapters.pytorch.collective_tap import TorchCollectiveTap

    return TorchCollectiveTap(names if config.level in ("L1", "mix") else [], relay, thread)


def _table() -> Any:
    text = files("msprobe.adapters").joinpath("tables/pytorch.yaml").read_text("utf-8")
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_single_data()  # safe_load, with the fast parser
