"""The MindSpore backend: all capabilities put together. Core uses only ``make_backend`` of this adapter."""

from __future__ import annotations

from functools import partial

from mindspore import nn

from msprobe.adapters.mindspore.compile.compiled_calls import MindSporeGraphTap
from msprobe.adapters.mindspore.kernel.runtime_dump import MindSporeKernelDump
from msprobe.adapters.mindspore.recorded_names import read_names
from msprobe.adapters.mindspore.replay.live_functions import MindSporeLiveFunctions
from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.adapters.mindspore.runtime_facts import on_cpu, runtime_facts
from msprobe.adapters.mindspore.taps.api_tap import CheckedApiTap, MindSporeApiTap
from msprobe.adapters.mindspore.taps.collective_tap import MindSporeCollectiveTap
from msprobe.adapters.mindspore.taps.gradient_tap import make_gradient_tap
from msprobe.adapters.mindspore.taps.input_tap import MindSporeInputTap
from msprobe.adapters.mindspore.taps.memory_tap import MindSporeMemoryTap
from msprobe.adapters.mindspore.taps.module_tap import MindSporeModuleTap
from msprobe.adapters.mindspore.taps.optimizer_tap import MindSporeOptimizerTap
from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps
from msprobe.adapters.mindspore.tensors.unwritten import MindSporeUnwrittenMemory
from msprobe.adapters.mindspore.tensors.values import MindSporeValues
from msprobe.adapters.mindspore.versions import version_text
from msprobe.core.backend.mindspore_modes import watches_kernels
from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patched_apis import ListedApis
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.selection import DataMode, risk_test


def make_backend(config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
    """Return the capabilities that a session with this configuration needs; nothing is wrapped yet."""
    table = read_names()
    passes_risk = risk_test("ALL", (), ())  # no function is ranked; ``warn_unused_settings`` warns of CORE
    modules = MindSporeModuleTap(current, thread)
    unwritten = MindSporeUnwrittenMemory()
    memory = MindSporeMemoryTap(unwritten, thread)
    make_tap = CheckedApiTap if config.task_spec.checker else MindSporeApiTap
    apis = make_tap([table["apis"]], passes_risk, (current, thread), modules.cells, ListedApis(config), memory)
    kernels = watches_kernels(config, runtime_facts())
    return Backend(
        name="mindspore",
        ops=MindSporeTensorOps(config.precision, unwritten=unwritten),
        values=MindSporeValues(),
        runtime=MindSporeRuntime(),
        apis=apis,
        modules=modules,
        graphs=MindSporeGraphTap(current, modules, DataMode.of(config.section.data_mode)),
        inputs=MindSporeInputTap(nn.Cell, modules.stem, thread),
        collectives=MindSporeCollectiveTap(
            table["distributed"] if config.level in ("L1", "mix") else {}, current, thread, unwritten
        ),
        gradients=make_gradient_tap(thread),
        optimizers=MindSporeOptimizerTap(current, modules.parameter_names),
        memory=memory.attach,
        live=MindSporeLiveFunctions() if config.task_spec.checker else None,
        apis_in_models=True,
        has_risk_levels=False,
        kernel_dump=partial(MindSporeKernelDump, config) if kernels else None,
        header=_header(config),
        version=version_text(),
        device=runtime_facts().device,
    )


def _header(config: DumpConfig) -> dict[str, str]:
    """Return the fields of dump.json that say who found what task ``overflow_check`` or ``exception_dump`` records.

    ``overflow_check`` looks at values and asks no hardware flag. A CPU has no service for ``exception_dump``: calls are
    recorded instead of kernels.
    """
    if config.task == "overflow_check":
        return {"producer": "cpu-fallback"}
    if config.task == "exception_dump":
        return {"producer": "cpu-fallback", "record_level": "api"} if on_cpu() else {"producer": "runtime"}
    return {}
