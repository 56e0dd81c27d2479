"""From the task of the configuration to the objects of one step: its recorder, tensor nodes, judge and collector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.bounds.disk_budget import DiskBudget, StepAccount
from msprobe.core.dump.bounds.ring import Ring
from msprobe.core.dump.captured.captured_graph import CapturedSink
from msprobe.core.dump.captured.collector import GraphModeCollector
from msprobe.core.dump.record.async_worker import AsyncTensors, AsyncWorker, SettleBarrier, queue_limit
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.step_recorder import RecordingPlan, StepOutput, StepRecorder
from msprobe.core.dump.record.tensor_node import MeasuredTensors, SlicedTensors, TensorNodes
from msprobe.core.dump.session.kernel_level import has_target, make_kernel_collector
from msprobe.core.dump.session.start_filters import StartFilters
from msprobe.core.dump.tasks.checked_calls import CallChecker, CheckCollector
from msprobe.core.dump.tasks.judged_recorder import DeferredTensors, Judge, JudgedRecorder, Judging
from msprobe.core.dump.tasks.live_compare import GoldenSteps, LiveComparison
from msprobe.core.interruption import import_whole
from msprobe.core.selection import Selection
from msprobe.core.store.sink import DirectorySink


@dataclass(frozen=True, slots=True)
class StepContext:
    """What one step needs of its session; the objects of a step never see the session itself.

    Attributes:
        config: the configuration of the session.
        plan: its switches.
        backend: the framework.
        thread: the per-thread state.
        stacks: the interned call stacks.
        worker: the worker of ``async_dump``; None without it.
        golden: the golden dump of ``bench_path``; None without it.
        checker: checks calls while the program runs; None for a task that does not.
        filters: the filters of the present start, and the count of findings.
        label: more fields for the header of dump.json.
        number: the number of the step.
        rank: the rank of the process when the step began; None when it had none yet.
        budget: the bytes that this process may write.
        ring: keeps the step in memory; None to write it.
        claim: returns the folder of the step, made and locked for this process.
        captured: takes the records of captured graphs; None where none are recorded.
    """

    config: DumpConfig
    plan: RecordingPlan
    backend: Backend
    thread: ThreadState
    stacks: StackTable
    worker: AsyncWorker | None
    golden: GoldenSteps | None
    checker: CallChecker | None
    filters: StartFilters
    label: Mapping[str, str]
    number: int
    rank: int | None
    budget: DiskBudget
    ring: Ring | None
    claim: Callable[[], Path]
    captured: CapturedSink | None = None


def make_worker(config: DumpConfig) -> AsyncWorker | None:
    """Return the worker of a session with ``async_dump``, else None. Judged calls are finished at once without one."""
    wanted = config.async_dump and config.task_spec.async_dump and config.section.bench_path is None
    return AsyncWorker(queue_limit()) if wanted and config.level != "L2" else None


def make_golden(config: DumpConfig) -> GoldenSteps | None:
    """Return the golden dump of ``bench_path``, or None. Raises FileCheckException when it is no folder."""
    path = config.section.bench_path
    return GoldenSteps(path, config.section.summary_kind) if path and config.task_spec.compares_live else None


def make_checker(config: DumpConfig, backend: Backend) -> CallChecker | None:
    """Return what checks calls while the program runs, or None."""
    module, _, name = config.task_spec.checker.partition(":")
    if not module or backend.live is None:
        return None
    checker: CallChecker = getattr(import_whole(module), name)(config, backend)
    return checker


def make_judge(context: StepContext) -> Judge | None:
    """Return the judge of a step, or None. Raises MsprobeException when there is no golden dump to judge by."""
    if context.golden is not None:
        data = context.golden.data(context.number, context.rank)
        return LiveComparison(data, context.golden.divergence)
    module, _, name = context.config.task_spec.judge.partition(":")
    if not module:
        return None
    judge: Judge = getattr(import_whole(module), name)(context.config)
    return judge


def make_ring(config: DumpConfig) -> Ring | None:
    """Return what keeps the steps of a session in memory; None where they are written at once."""
    settings = config.section.kept_steps
    return None if settings is None else Ring(settings, Path(config.dump_path).absolute())


def make_sink(
    context: StepContext, folder: Path, header: Mapping[str, Any], account: StepAccount, tensors: bool
) -> DirectorySink:
    """Return where the records of a step go: into ``folder``, or into memory.

    Args:
        folder: the folder of the process.
        header: the fields of dump.json beside ``data``.
        account: counts the bytes that are written.
        tensors: whether there are tensor files.
    """
    options: dict[str, Any] = {
        "extra_info": context.config.extra_info,
        "pending": SettleBarrier(context.backend.ops, context.worker),
        "dropped": context.plan.dropped,
    }
    sink: DirectorySink
    if context.ring is not None:
        sink = context.ring.open_step(context.claim, folder, header, options, context.rank)
    else:
        sink = DirectorySink(folder, header, tensors=tensors, **options)
    sink.account = account
    return sink


@dataclass(frozen=True, slots=True)
class TensorFolder:
    """Where the tensor files of a step go.

    Attributes:
        path: the folder; None when the step has none.
        account: counts the files.
    """

    path: Path | None
    account: StepAccount


def make_recorder(
    context: StepContext, selection: Selection, output: StepOutput, files: TensorFolder, judge: Judge | None
) -> StepRecorder:
    """Return the recorder of a step.

    Args:
        files: where tensor files are written.
        judge: judges each call before it is written; None to write every call.
    """
    ops, plan, backend = context.backend.ops, context.plan, context.backend
    section = context.config.section
    mode = section.summary_kind
    if judge is not None:
        if judge.needs_statistics and mode == "xor":
            mode = "statistics"
        deferred = DeferredTensors(ops, mode, files.path)
        deferred.account = files.account
        judging = Judging(judge, context.filters.findings, deferred)
        return JudgedRecorder(plan, selection, backend, _sliced(context, deferred), output, judging)
    measured = MeasuredTensors(ops, mode, files.path, section.projected, memory=section.names_memory)
    measured.account = files.account
    nodes: TensorNodes = measured
    if context.worker is not None:
        nodes = AsyncTensors(measured, context.worker, output.errors)
    return StepRecorder(plan, selection, backend, _sliced(context, nodes), output)


def make_collector(context: StepContext, recorder: StepRecorder, sink: DirectorySink) -> Collector:
    """Return the collector of a step, which is the observer that the taps report to."""
    config, backend, thread, stacks = context.config, context.backend, context.thread, context.stacks
    if has_target(config):
        return make_kernel_collector(config, recorder, backend, thread, stacks, sink)
    if context.checker is not None:
        context.checker.begin_step(lambda: sink.folder, context.number, context.rank)
        return CheckCollector(recorder, backend, thread, stacks, context.checker)
    if context.captured is not None:
        return GraphModeCollector(recorder, backend, thread, stacks, context.captured.frames, sink.account)
    return Collector(recorder, backend, thread, stacks)


def _sliced(context: StepContext, nodes: TensorNodes) -> TensorNodes:
    section = context.config.section
    if not section.slice and section.request_id is None:
        return nodes
    inner = context.backend.ops.below_transforms
    return SlicedTensors(nodes, section.slice, lambda: context.filters.tokens, inner)
