"""A session of graph mode (``AclGraphDumper``): it records what captured graphs compute, at each of their replays.

The taps stay attached from ``start`` to the end of the process, also while ``dump_enable`` is off or a step is left
out: a graph that is captured then may be replayed later, and code that is compiled then must report its modules later.
What they see meanwhile is not recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from msprobe.core.backend.attached_taps import adopt, attach_taps
from msprobe.core.backend.captured_graphs import CaptureOps, GraphTap
from msprobe.core.capture.observer import Observer
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.captured.captured_graph import CapturedNodes, CapturedSink
from msprobe.core.dump.captured.captures import Captures
from msprobe.core.dump.captured.collector import EAGER, CaptureCollector
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.core.dump.record.step_recorder import StepOutput, StepRecorder
from msprobe.core.dump.record.tensor_node import SlicedTensors, TensorNodes
from msprobe.core.dump.session.reload import WatchedSession
from msprobe.core.dump.session.session import MakeBackend
from msprobe.core.errors import ConfigError, Problem
from msprobe.core.log import logger
from msprobe.core.selection import build_selection


class GraphSession(WatchedSession):
    """Collect calls that Python makes, and those inside captured graphs.

    Args:
        config, make_backend, watch: as those of ``WatchedSession``.
        tap: tells of captures and replays.
    """

    captured: CapturedSink

    def __init__(self, config: DumpConfig, make_backend: MakeBackend, watch: ConfigWatch | None, tap: GraphTap) -> None:
        super().__init__(config, make_backend, watch, {"kernel_source": EAGER})
        self.enabled = self._enabled_in_file = config.dump_enable is not False
        self.captured = CapturedSink()
        self._tap = tap
        self._watching = False
        self._waiting_taps: contextlib.ExitStack | None = None  # attached while nothing is recorded
        self._captures = Captures(
            self.current, self.captured, self._settle, self._observe, self._observed_by, lambda: self.enabled
        )

    def start(
        self,
        model: Any = None,
        rank_id: int | None = None,
        token_range: Any = None,
        scheduled_tokens: Any = None,
        computed_tokens: Any = None,
    ) -> None:
        super().start(model, rank_id, token_range, scheduled_tokens, computed_tokens)
        if not self._watching:
            self._watching = True
            self.closing.enter_context(self._tap.attach(self._captures))
        self._stay_attached()

    def step(self, dump: bool = True) -> None:
        self._captures.begin_step()
        super().step(dump)
        self._stay_attached()

    def check(self, force: bool = False) -> bool:
        reloaded = super().check(force)
        self._stay_attached()
        return reloaded

    def close(self) -> None:
        self._detach_waiting()
        super().close()

    def renew(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        self._detach_waiting()
        super().renew(config, make_backend)

    def abandon(self) -> None:
        self._detach_waiting()
        self._watching = False
        super().abandon()

    def hold_functions(self) -> None:
        """Do nothing: the taps stay attached between the steps by themselves."""

    # ---- internals ----

    def _attach(self, collects: bool = True) -> None:
        self._detach_waiting()
        super()._attach(collects)

    def _stay_attached(self) -> None:
        """Attach the taps where the step is not recorded."""
        if self._taps is not None or self._waiting_taps is not None or self._start_arguments is None:
            return
        if not self._rank_selected(None):
            return
        model = self._last_model()
        if self.plan.modules and model is not None:
            adopt(self.backend, self.config.level, model)
        self.current.observer = None
        with contextlib.ExitStack() as taps:
            attach_taps(self.backend, self.plan, taps, alone=False)
            self._waiting_taps = taps.pop_all()

    def _detach_waiting(self) -> None:
        if self._waiting_taps is not None:
            taps, self._waiting_taps = self._waiting_taps, None
            taps.close()

    def _settle(self) -> None:
        if self._step is not None:
            self._step.flush()

    def _observe(self) -> tuple[Collector, CaptureOps] | None:
        """Return what records a capture that begins; None in a rank that the configuration leaves out."""
        ops = self.backend.capture_ops
        if ops is None or not self._rank_selected(None) or self._budget.reached:
            return None
        section = self.config.section
        nodes: TensorNodes = CapturedNodes(ops, self.captured)
        if section.slice:
            nodes = SlicedTensors(nodes, section.slice, lambda: None, self.backend.ops.below_transforms)
        output = StepOutput(self.captured, ErrorLog(None))
        recorder = StepRecorder(self.plan, build_selection(self.config), self.backend, nodes, output)
        return CaptureCollector(recorder, self.backend, self.thread, self._stacks, ops.capturing), ops

    @contextlib.contextmanager
    def _observed_by(self, observer: Observer) -> Iterator[None]:
        before, scopes = self.current.observer, self.thread.scopes
        self.current.observer, self.thread.scopes = observer, []
        try:
            yield
        finally:
            self.current.observer, self.thread.scopes = before, scopes


TASKS = ("statistics", "tensor", "structure")
LEVELS = ("L0", "L1", "mix")


def check_graph_mode(config: DumpConfig) -> None:
    """Warn of settings that calls inside captured graphs cannot follow; those outside follow them.

    Raises:
        ConfigError: the task or the level cannot be had in graph mode.
    """
    problems = []
    if config.task not in TASKS:
        problems.append(Problem("task", config.task, f"AclGraphDumper collects {', '.join(TASKS)}"))
    if config.level not in LEVELS:
        problems.append(Problem("level", config.level, f"AclGraphDumper collects at {', '.join(LEVELS)}"))
    section = config.section
    if section.bench_path is not None and config.task_spec.compares_live:
        expected = "AclGraphDumper compares nothing while it runs; leave it out, and use msprobe compare afterwards"
        problems.append(Problem(f"{config.task}.bench_path", section.bench_path, expected))
    if problems:
        raise ConfigError(problems)
    notes = {
        "async_dump": (config.async_dump, "tensors of a replay are saved at once"),
        "summary_mode": (section.summary_kind != "statistics", "they have statistics, and no checksums"),
        "request_id": (section.request_id is not None, "the tokens of all requests are recorded"),
        "projection": (section.projected is True, "they have no order-sensitive sum"),
        "memory": (section.names_memory, "they do not name their memory"),
        "load": (config.load is not None, "their inputs are not replaced"),
    }
    for name, (is_set, what) in notes.items():
        if is_set:
            logger.warning("%s has no effect on calls inside captured graphs: %s", name, what)
