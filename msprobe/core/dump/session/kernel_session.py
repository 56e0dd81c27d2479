"""Collect the kernels of compiled graphs (level L2), which the runtime of the framework dumps by itself.

The runtime is asked once per process (``KernelDump``). What it writes between start and stop is imported as one step of
our store. MindSpore's runtime on a CPU computes no statistics and ignores several filters: it is asked for tensors
then, and the rest is done here (``producer: cpu-fallback``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.dump.session.rank_folder import RankFolder
from msprobe.core.dump.session.session import MakeBackend
from msprobe.core.dump.session.step_rank_filter import CallCounts, StepRankFilter
from msprobe.core.dump.tasks.nonfinite import NON_FINITE, failure_text
from msprobe.core.dump.tasks.nonfinite_source import find_source
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import ignored
from msprobe.core.kernel_dumps.dump_folder import Iteration, NativeFolder, NewFiles, remove_files
from msprobe.core.kernel_dumps.importer import MAIN_STATISTICS, ImportPlan, import_iterations
from msprobe.core.kernel_dumps.kernel_names import PARAMETER
from msprobe.core.kernel_dumps.runtime_request import categories
from msprobe.core.log import first_time, logger, set_rank

_GRAPH_INPUTS = f"Kernel.{PARAMETER}."
_NON_FINITE = ("nan count", "positive inf count", "negative inf count")


class KernelSession:
    """Has the methods of ``DumpSession`` that ``PrecisionDebugger`` uses.

    Args:
        config: a configuration of level L2.
        make_backend: builds the framework's capabilities: its ``kernel_dump``, rank and values are used.

    Raises:
        MsprobeException: a graph has been compiled already, or the request cannot be written.
    """

    def __init__(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        self.config = config
        self.backend = make_backend(config, CurrentObserver(), ThreadState())
        self.init_step = 0
        self.loop = 0
        self.running = False
        self._active = True
        self.errors = ErrorLog(None)
        self._rank: int | None = None
        self._root = Path(config.dump_path).absolute()
        self._step_filter = StepRankFilter(config)
        self._folders = RankFolder()
        self._new_files = NewFiles(time.time_ns() // 1000)
        self._pending: list[Iteration] = []
        self._stepped = self._started = self._found = False
        assert self.backend.kernel_dump is not None
        self._dump = self.backend.kernel_dump()
        if any(self._root.glob("rank_*/*/*/*")):
            logger.warning("%s holds an earlier kernel dump, which stays: a new dump_path keeps them apart", self._root)

    # ---- what PrecisionDebugger uses ----

    @property
    def rank(self) -> int | None:
        """The rank of the process; None while it has none."""
        return self._rank

    @property
    def current_step(self) -> int:
        """The number of the current step."""
        return self.init_step + self.loop

    @property
    def opened(self) -> bool:
        """Whether something of the present step waits to be imported."""
        return bool(self._pending) or self.running

    def set_init_step(self, step: int) -> None:
        """Number the steps from ``step`` on."""
        self.init_step, self.loop = step, 0

    def start(
        self,
        model: Any = None,
        rank_id: int | None = None,
        token_range: Any = None,
        scheduled_tokens: Any = None,
        computed_tokens: Any = None,
    ) -> None:
        """Begin collecting what the runtime writes.

        Raises:
            MsprobeException: an argument has no meaning for kernels.
        """
        if token_range is not None or scheduled_tokens is not None:
            raise MsprobeException(0, "start: token_range and scheduled_tokens do not work at level L2; leave them out")
        self._update_rank(rank_id)
        if not self._started:
            self._dump.refresh()
        if not self.running:
            self._dump.settle()
            self._drop_new()
            self.running = self._started = True
            if self._selected():
                self._dump.start()

    def stop(self) -> None:
        """Keep what the runtime has written so far, and collect nothing more until the next start."""
        if self.running:
            self._dump.settle()
            self.running = False
            self._dump.stop()
            self._keep_new()

    def step(self, dump: bool = True) -> None:
        """End the step and import its kernels as ``step{N}``; with ``dump=False`` they are dropped."""
        self._dump.settle()
        self._stepped = True
        self._end(dump)
        self._dump.step()
        self.loop += 1

    def save(self, value: Any, name: str, backward: bool = True) -> None:
        """Warn that level L2 collects no single values."""
        if first_time("kernel-save"):
            logger.warning("save: has no effect at level L2, which collects kernels; use level debug for %s", name)

    def reset(self) -> None:
        """End the present step without counting it."""
        self._dump.settle()
        self._end(True)

    def move(self, folder: str) -> None:
        """Warn that the folder cannot change: the runtime uses one folder for the whole process."""
        if Path(folder).absolute() != self._root:
            logger.warning("dump_path stays %s: at level L2 it cannot change while the process runs", self._root)

    def forget_rank(self) -> None:
        """Find out the rank again at the next start."""
        self._rank = None

    def close(self) -> None:
        """End the session at the end of the process: import what is left, and withdraw the request."""
        if not self._active:
            return
        with ignored(RuntimeError):  # at exit a failed kernel is of no interest any more
            self._dump.settle()
        self._import_rest()
        self._step_filter.conclude(CallCounts(starts=int(self._started), steps=int(self._stepped)))
        self._dump.withdraw()

    def abandon(self) -> None:
        """Drop everything in a forked child: it belongs to the parent."""
        self._pending.clear()
        self.running = False
        self._active = False

    def inherit(self) -> None:
        """Warn in a forked child that nothing is collected: the runtime serves the parent only."""
        logger.warning("level L2 collects no kernels in a forked process")

    # ---- what the runtime wrote ----

    def _update_rank(self, rank_id: int | None = None) -> None:
        if self._rank is None:
            self._rank = rank_id if rank_id is not None else self.backend.runtime.rank()
            set_rank(self._rank)

    def _selected(self) -> bool:
        return self._step_filter.selects_rank(self._rank or 0) and self._step_filter.selects_step(self.current_step)

    @property
    def _native(self) -> NativeFolder:
        return NativeFolder(self._root.joinpath(f"rank_{self.backend.runtime.rank() or 0}"))

    def _fresh(self) -> list[Iteration]:
        return self._new_files.poll(self._native)

    @never_raises
    def _drop_new(self) -> None:
        self._drop(self._fresh())

    @never_raises
    def _keep_new(self) -> None:
        self._pending += self._fresh()

    @never_raises
    def _end(self, dump: bool) -> None:
        if self.running:
            self._pending += self._fresh()
        else:
            self._drop(self._fresh())
        runs, self._pending = self._pending, []
        if not dump or not self._selected():
            self._drop(runs)
        elif runs:
            self._import(runs, self.current_step)
        elif self._started:
            self._explain_empty()

    @never_raises
    def _import_rest(self) -> None:
        if self.running:
            self._pending += self._fresh()
        self.running = False
        runs, self._pending = self._pending, []
        if self._stepped or len({run.number for run in runs}) <= 1:
            if runs and self._selected():
                self._import(runs, self.current_step)
            return
        by_number: dict[int, list[Iteration]] = {}
        for run in runs:  # step() was never called: the runtime's numbers are used as steps
            by_number.setdefault(run.number, []).append(run)
        for number, same_number in by_number.items():
            step = self.init_step + number
            if self._step_filter.selects_step(step) and self._step_filter.selects_rank(self._rank or 0):
                self._import(same_number, step)
            else:
                self._drop(same_number)

    def _drop(self, runs: list[Iteration]) -> None:
        """Remove files of runs that are not collected: a CPU writes every run."""
        if self._dump.facts.on_cpu:
            for run in runs:
                remove_files(run)

    def _import(self, runs: list[Iteration], step: int) -> None:
        if self._found:  # one kernel that fails ends the collection
            self._drop(runs)
            return
        folder = self._folders.folder(self._root, step, self._rank)
        plan = self._plan()
        count = import_iterations(self._native, runs, folder, plan)
        if plan.choose is not None:
            self._drop(runs)
        elif plan.non_finite:
            self._drop(runs)  # the kernels that overflowed are imported; the rest is not needed
            logger.info("step %d: %d kernels with NaN or infinities, in %s", step, count, folder)
        else:
            logger.info("step %d: %d records of kernels are in %s", step, count, folder)

    def _plan(self) -> ImportPlan:
        config, on_cpu = self.config, self._dump.facts.on_cpu
        header = {"producer": "cpu-fallback"} if self._dump.substitute else {}
        if config.task == "overflow_check":
            return ImportPlan(config.task, (*MAIN_STATISTICS, *_NON_FINITE), header, non_finite=True)
        words = tuple(categories(config.section.summary_mode, self._dump.facts.version))
        if config.task == "exception_dump":
            header["record_level"] = "kernel"
            return ImportPlan(config.task, MAIN_STATISTICS, header, choose=self._first_failure)
        if config.task == "tensor":
            return ImportPlan(config.task, tuple(dict.fromkeys((*MAIN_STATISTICS, *words))), header)
        return ImportPlan(config.task, words, header, reduce=on_cpu)

    def _first_failure(self, records: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the kernel that made the first infinity or NaN, with what is added to its record; nothing without."""
        source = find_source({name: body for name, body in records.items() if not name.startswith(_GRAPH_INPUTS)})
        if source is None:
            logger.info("exception_dump: no kernel made infinities or NaN in step %d", self.current_step)
            return {}
        if not source.made:
            logger.warning("exception_dump: %s: %s", source.name, source.reason)
            return {}
        self._found = True
        logger.warning("exception_dump: %s", failure_text(source.name, NON_FINITE, source.reason))
        return {source.name: {"kind": NON_FINITE}}

    def _explain_empty(self) -> None:
        if not first_time("kernel-empty"):
            return
        if self._native.accepted:
            logger.warning("step %d: MindSpore wrote no kernels; see list and data_mode", self.current_step)
        else:
            logger.warning(
                "step %d: MindSpore has not read its request: no graph or jit function was compiled since "
                "PrecisionDebugger was created",
                self.current_step,
            )
