"""From the task of the configuration to the recording of one step: which leaves it has and who judges its calls."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.background import Background, BackgroundLeaves, Settling, queue_limit
from msprobe.core.dump.exceptional import Exceptional
from msprobe.core.dump.golden import GoldenSteps
from msprobe.core.dump.judging import HeldLeaves, Judge, JudgedRecording
from msprobe.core.dump.leaf import LeafTask, Leaves
from msprobe.core.dump.live_difference import LiveDifference
from msprobe.core.dump.nonfinite import NonFinite
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.slicing import SlicedLeaves
from msprobe.core.selection.build import Selection
from msprobe.core.store.sink import DirectorySink

if TYPE_CHECKING:
    from msprobe.core.dump.session import DumpSession


def make_background(config: DumpConfig, thread: ThreadState) -> Background | None:
    """The worker of a session with ``async_dump``. Judged calls are done with at once: they need none."""
    wanted = config.async_dump and config.task_spec.async_dump and config.section.bench_path is None
    return Background(queue_limit(), thread) if wanted and config.level != "L2" else None


def make_golden(config: DumpConfig) -> GoldenSteps | None:
    """The golden dump of ``bench_path``. Raises FileCheckException when it is no folder."""
    path = config.section.bench_path
    return GoldenSteps(path, config.section.one_mode) if path and config.task_spec.compares_live else None


def make_judge(session: DumpSession) -> Judge | None:
    """The judge of the step that begins. Raises MsprobeException when there is no golden dump to judge by."""
    if session.golden is not None:
        data = session.golden.data(session.current_step, session.rank)
        return LiveDifference(data, session.golden.divergence)
    module, _, name = session.config.task_spec.judge.partition(":")
    if not module:
        return None
    judge: Judge = getattr(importlib.import_module(module), name)()
    return judge


def make_recording(
    session: DumpSession, selection: Selection, sink: DirectorySink, folder: Path | None, judge: Judge | None
) -> Recording:
    """The recording of a step into ``sink``; ``folder`` is where tensor files go."""
    ops, plan, mode = session.backend.ops, session.plan, session.config.section.one_mode
    sink.statistics = ops
    sink.left_out = plan.unchosen
    if judge is not None:
        if isinstance(judge, (NonFinite, Exceptional)) and mode == "xor":
            mode = "statistics"  # a checksum does not tell whether values are finite
        held = HeldLeaves(ops, mode, folder)
        judged = JudgedRecording(plan, selection, session.backend, _sliced(session, held), sink)
        judged.use(judge, session.gates.findings, held)
        judged.tensors = held
        return judged
    leaves = LeafTask(ops, mode, folder, getattr(session.config.section, "projection", False))
    if session.background is not None:
        sink.statistics = sink.backlog = Settling(ops, session.background)
        leaves = BackgroundLeaves(leaves, session.background)
    sliced = _sliced(session, leaves)
    recording = Recording(plan, selection, session.backend, sliced, sink)
    recording.tensors = leaves
    if sliced is leaves and selection.modes.input:
        recording.births = session.backend.births
    return recording


def _sliced(session: DumpSession, leaves: Leaves) -> Leaves:
    section = session.config.section
    if not section.slice and section.request_id is None:
        return leaves
    return SlicedLeaves(leaves.leaf, section.slice, lambda: session.gates.tokens)
