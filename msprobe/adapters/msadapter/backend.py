"""The MSAdapter backend: PyTorch's names over MindSpore's tensors. ``make_backend`` is its only name that core uses."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.taps.gradient_tap import make_gradient_tap
from msprobe.adapters.mindspore.taps.input_tap import MindSporeInputTap
from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps
from msprobe.adapters.mindspore.tensors.values import MindSporeValues
from msprobe.adapters.msadapter.detection import torch_of_msadapter
from msprobe.adapters.msadapter.runtime import MSAdapterRuntime
from msprobe.adapters.msadapter.taps.api_tap import MSAdapterApiTap
from msprobe.adapters.msadapter.taps.collective_tap import MSAdapterCollectiveTap
from msprobe.adapters.msadapter.taps.module_tap import MSAdapterModuleTap
from msprobe.adapters.msadapter.taps.optimizer_tap import MSAdapterOptimizerTap
from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patched_apis import ListedApis
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.errors import MsprobeException
from msprobe.core.selection import risk_test, uses_risk_level
from msprobe.core.yaml_file import load_table

NAME = "mindtorch"


def make_backend(config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
    """Return the capabilities that a session with this configuration needs; nothing is wrapped yet.

    Raises:
        MsprobeException: the program has not imported MSAdapter's torch.
    """
    torch = torch_of_msadapter()
    if torch is None:
        raise MsprobeException(0, "MSAdapter is not there: import its torch before PrecisionDebugger is constructed")
    table = read_table()
    level = config.risk_level if uses_risk_level(config) else "ALL"
    passes_risk = risk_test(level, table["risk"]["core"], table["risk"]["low"])
    names = {**table["apis"], "NPU": table["packages"]["NPU"]["apis"]}
    apis = MSAdapterApiTap(torch, names, passes_risk, current, thread, ListedApis(config))
    modules = MSAdapterModuleTap(torch.nn.Module, current, thread)
    return Backend(
        name=NAME,
        ops=MindSporeTensorOps(config.precision),
        values=MindSporeValues(),
        runtime=MSAdapterRuntime(torch),
        apis=apis,
        modules=modules,
        inputs=MindSporeInputTap(torch.nn.Module, modules.stem, thread),
        collectives=MSAdapterCollectiveTap(
            torch, table["distributed"] if config.level in ("L1", "mix") else (), current, thread
        ),
        gradients=make_gradient_tap(thread),
        optimizers=MSAdapterOptimizerTap(torch, current, modules.parameter_names),
        version=str(getattr(torch, "__version__", "")),
    )


def read_table() -> Any:
    """Return PyTorch's table without the functions that only its own namespaces have."""
    table = load_table("msprobe.adapters", "tables/pytorch.yaml")
    table["apis"].pop("VF", None)
    return table
