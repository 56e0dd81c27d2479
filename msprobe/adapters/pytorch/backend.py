"""The PyTorch backend: all capabilities put together. Core uses only ``make_backend`` of this adapter."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.adapters.pytorch.kernel.graph_events import SettledBeforeCaptures
from msprobe.adapters.pytorch.kernel.runtime_dump import find_npu_runtime
from msprobe.adapters.pytorch.perturbation import TorchPerturbation
from msprobe.adapters.pytorch.recorded_names import read_names
from msprobe.adapters.pytorch.replay.live_functions import TorchLiveFunctions
from msprobe.adapters.pytorch.replay.operator_watch import CheckedOperatorTap
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.taps.api_tap import ApiTaps, PackageTap, TorchApiTap, TorchListedApis
from msprobe.adapters.pytorch.taps.compiled_api_tap import CompiledApiTap
from msprobe.adapters.pytorch.taps.distribution import made_by_torch
from msprobe.adapters.pytorch.taps.edge_tap import TorchMoveTap, TorchReadTap
from msprobe.adapters.pytorch.taps.gradient_tap import TorchGradientTap
from msprobe.adapters.pytorch.taps.input_tap import TorchInputTap
from msprobe.adapters.pytorch.taps.memory_tap import TorchMemoryTap, inside_calls
from msprobe.adapters.pytorch.taps.module_tap import TorchModuleTap
from msprobe.adapters.pytorch.taps.operator_tap import PREFIX, TorchOperatorTap
from msprobe.adapters.pytorch.taps.optimizer_tap import TorchOptimizerTap
from msprobe.adapters.pytorch.taps.package_taps import TritonTap, VendorTap
from msprobe.adapters.pytorch.taps.reduction_identity import ReductionIdentity
from msprobe.adapters.pytorch.tensors.captured_values import CapturedTensorOps
from msprobe.adapters.pytorch.tensors.in_flight import TensorsInFlight
from msprobe.adapters.pytorch.tensors.megatron_marks import read_marks
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory, read_arguments
from msprobe.adapters.pytorch.tensors.values import TorchValues
from msprobe.core.backend.protocols import Backend, CollectiveTap, OperatorTap
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.tasks.checked_calls import checked_inside
from msprobe.core.naming.names import is_module_name
from msprobe.core.selection import asks_for_operators, risk_test, uses_risk_level


def make_backend(
    config: DumpConfig, current: CurrentObserver, thread: ThreadState, *, compiled_functions: bool = False
) -> Backend:
    """Return the capabilities that a session with this configuration needs; nothing is wrapped yet.

    Args:
        config: the configuration.
        current: holds the current observer.
        thread: the state of threads.
        compiled_functions: whether calls of functions inside compiled code are recorded.
    """
    table = read_names()
    level = config.risk_level if uses_risk_level(config) else "ALL"
    passes_risk = risk_test(level, table["risk"]["core"], table["risk"]["low"])
    kernels = find_npu_runtime() if config.level == "L2" else None
    operators = asks_for_operators(config, PREFIX) or (config.level == "L2" and kernels is None)
    checks_operators = config.task_spec.checks_operators
    tables = [] if checks_operators else [table["apis"], table["extra"]]
    unwritten, in_flight = TorchUnwrittenMemory(), TensorsInFlight(thread, is_traced)
    inside = inside_calls(unwritten, thread, operators)
    if config.task_spec.checker:
        inside = checked_inside(inside, thread)
    gradients = TorchGradientTap(thread)
    make_tap = functools.partial(CompiledApiTap, gradients) if compiled_functions else TorchApiTap
    apis = make_tap(tables, passes_risk, current, thread, inside, TorchListedApis(config))
    ops = TorchTensorOps(config.precision, unwritten=unwritten, arrivals=in_flight)
    settled = SettledBeforeCaptures(ops.settle)
    packages: list[PackageTap] = [
        TorchMemoryTap(unwritten, thread, {*table["apis"]["Tensor"], *table["extra"]["Tensor"]}),
        VendorTap(table["packages"], passes_risk, current, thread),
        TritonTap(table["triton"], passes_risk, current, thread),
        ReductionIdentity(),
        TorchReadTap(current, thread),
        TorchMoveTap(table["moves"] if config.level in ("L1", "mix") and config.extra_info else {}, current, thread),
        settled,
    ]
    modules = TorchModuleTap(current, thread, gradients, apis.in_place_of)
    return Backend(
        name="pytorch",
        ops=ops,
        values=TorchValues(),
        runtime=TorchRuntime(operators),
        apis=ApiTaps(apis, packages),
        modules=modules,
        inputs=TorchInputTap(modules, thread),
        perturbation=None if config.perturb is None else TorchPerturbation(config.perturb, thread),
        read_marks=read_marks if torch.distributed.is_available() else None,
        collectives=_collectives(config, table["distributed"], (current, thread), (unwritten, in_flight)),
        gradients=gradients,
        optimizers=TorchOptimizerTap(current, modules.parameter_names, modules.gradient_threads, modules.passes),
        memory=functools.partial(_attached, settled, TorchMemoryTap(unwritten, thread, ())),
        live=TorchLiveFunctions() if config.task_spec.checker else None,
        operators=_operators(checks_operators, operators, (current, thread), unwritten),
        read_arguments=read_arguments,
        site_of=lambda stem: (modules if is_module_name(stem) else apis).site_of(stem),
        capture_ops=CapturedTensorOps(ops, config.precision, unwritten, in_flight),
        made_by_framework=made_by_torch if torch.distributed.is_available() else None,
        kernels=kernels,
        version=torch.__version__,
    )


@contextlib.contextmanager
def _attached(*taps: PackageTap) -> Iterator[None]:
    with contextlib.ExitStack() as attached:
        for tap in taps:
            attached.enter_context(tap.attach())
        yield


def _operators(
    checked: bool, recorded: bool, watch: tuple[CurrentObserver, ThreadState], unwritten: TorchUnwrittenMemory
) -> OperatorTap | None:
    if checked:
        return CheckedOperatorTap(*watch)
    return TorchOperatorTap(*watch, unwritten) if recorded else None


def _collectives(
    config: DumpConfig,
    names: list[str],
    watch: tuple[CurrentObserver, ThreadState],
    memory: tuple[TorchUnwrittenMemory, TensorsInFlight],
) -> CollectiveTap | None:
    if not torch.distributed.is_available():
        return None
    from msprobe.adapters.pytorch.taps.collective_tap import TorchCollectiveTap

    return TorchCollectiveTap(names if config.level in ("L1", "mix") else [], *watch, *memory)
