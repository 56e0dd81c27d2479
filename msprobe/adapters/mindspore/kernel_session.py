"""A collection that MindSpore's runtime does for us: kernels of compiled graphs, level L2.

The runtime reads its request (``MINDSPORE_DUMP_CONFIG``) once per process, when the first graph is compiled. What it
writes between start and stop is imported as one step of our store. A CPU does not compute statistics and ignores
several filters: there it is asked for tensors, and the rest is done here (``producer: cpu-fallback``).
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from msprobe.adapters.mindspore.asked_runtime import AskedRuntime
from msprobe.adapters.mindspore.runtime_facts import settle
from msprobe.adapters.mindspore.runtime_switch import RuntimeSwitch
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.chosen import StepRankFilter
from msprobe.core.dump.session import MakeBackend
from msprobe.core.dump.shield import ErrorLog, never_raises
from msprobe.core.dump.whereabouts import RankFolder
from msprobe.core.errors import MsprobeException
from msprobe.core.kernels.importing import FOUR, ImportPlan, import_iterations
from msprobe.core.kernels.native_files import Newcomers, remove_files
from msprobe.core.kernels.native_folder import Iteration, NativeFolder
from msprobe.core.kernels.request import categories
from msprobe.core.log import first_time, logger, set_rank

_NON_FINITE = ("nan count", "positive inf count", "negative inf count")


class KernelSession:
    """Offers what ``DumpSession`` offers to ``PrecisionDebugger``.

    Args:
        config: a configuration of level L2.
        make_backend: builds the framework's capabilities; only its rank and its values are used.

    Raises:
        MsprobeException: a graph has been compiled already, or the request cannot be written.
    """

    def __init__(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        self.config = config
        self.backend = make_backend(config, Relay(), ThreadState())
        self.label: dict[str, str] = {}
        self.init_step = 0
        self.loop = 0
        self.running = False
        self._ours = True
        self.errors = ErrorLog(None)
        self._rank: int | None = None
        self._root = Path(config.dump_path).absolute()
        self._chosen = StepRankFilter(config)
        self._places = RankFolder()
        self._newcomers = Newcomers(time.time_ns() // 1000)
        self._pending: list[Iteration] = []
        self._stepped = self._started = False
        self._asked = AskedRuntime(config)
        self._switch = RuntimeSwitch(self._asked.facts)
        self._switch.prepare()
        if any(self._root.glob("rank_*/*/*/*")):
            logger.warning("%s holds an earlier kernel dump, which stays: a new dump_path keeps them apart", self._root)

    # ---- what PrecisionDebugger uses ----

    @property
    def rank(self) -> int | None:
        return self._rank

    @property
    def current_step(self) -> int:
        return self.init_step + self.loop

    @property
    def opened(self) -> bool:
        """Whether something of the present step waits to be imported."""
        return bool(self._pending) or self.running

    def set_init_step(self, step: int) -> None:
        """Number the steps from ``step`` on."""
        self.init_step, self.loop = step, 0

    def start(
        self, model: Any = None, rank_id: int | None = None, token_range: Any = None, scheduled_tokens: Any = None
    ) -> None:
        """Take what the runtime writes from now on.

        Raises:
            MsprobeException: an argument has no meaning for kernels.
        """
        if token_range is not None or scheduled_tokens is not None:
            raise MsprobeException(0, "start: token_range and scheduled_tokens do not work at level L2; leave them out")
        self._look_for_rank(rank_id)
        if not self._started:
            self._asked.refresh()
        if not self.running:
            settle()
            self._leave_out()
            self.running = self._started = True
            if self._selected():
                self._switch.start()

    def stop(self) -> None:
        """Take what has been written so far; nothing more until the next start."""
        if self.running:
            settle()
            self.running = False
            self._switch.stop()
            self._gather()

    def step(self, dump: bool = True) -> None:
        """End the step: import it as ``step{N}``. ``dump=False`` leaves it out."""
        settle()
        self._stepped = True
        self._end(dump)
        self._switch.step()
        self.loop += 1

    def save(self, value: Any, name: str, backward: bool = True) -> None:
        """Single points are not collected at level L2."""
        if first_time("kernel-save"):
            logger.warning("save: has no effect at level L2, which collects kernels; use level debug for %s", name)

    def reset(self) -> None:
        """Close the present step without counting it."""
        settle()
        self._end(True)

    def move(self, folder: str) -> None:
        """The runtime knows one folder for the whole process: another one cannot be had any more."""
        if Path(folder).absolute() != self._root:
            logger.warning("dump_path stays %s: at level L2 it cannot change while the process runs", self._root)

    def forget_rank(self) -> None:
        """Ask for the rank again at the next start."""
        self._rank = None

    def close(self) -> None:
        """At the end of the process: import what is left, and leave no request behind."""
        if not self._ours:
            return
        with contextlib.suppress(RuntimeError):  # at exit nobody is left to hear of a failed kernel
            settle()
        self._last()
        self._asked.withdraw()

    def abandon(self) -> None:
        """In a forked child: nothing here is the child's."""
        self._pending.clear()
        self.running = False
        self._ours = False

    def inherit(self) -> None:
        """In a forked child: the runtime answers the parent alone, so nothing comes, and nothing is taken back."""
        logger.warning("level L2 collects no kernels in a forked process")

    # ---- what the runtime wrote ----

    def _look_for_rank(self, rank_id: int | None = None) -> None:
        if self._rank is None:
            self._rank = rank_id if rank_id is not None else self.backend.runtime.rank()
            set_rank(self._rank)

    def _selected(self) -> bool:
        return self._chosen.rank(self._rank or 0) and self._chosen.step(self.current_step)

    @property
    def _native(self) -> NativeFolder:
        return NativeFolder(self._root / f"rank_{self.backend.runtime.rank() or 0}")

    def _fresh(self) -> list[Iteration]:
        return self._newcomers.look(self._native)

    @never_raises
    def _leave_out(self) -> None:
        self._forget(self._fresh())

    @never_raises
    def _gather(self) -> None:
        self._pending += self._fresh()

    @never_raises
    def _end(self, dump: bool) -> None:
        if self.running:
            self._pending += self._fresh()
        else:
            self._forget(self._fresh())
        runs, self._pending = self._pending, []
        if not dump or not self._selected():
            self._forget(runs)
        elif runs:
            self._import(runs, self.current_step)
        elif self._started:
            self._explain_empty()

    @never_raises
    def _last(self) -> None:
        if self.running:
            self._pending += self._fresh()
        self.running = False
        runs, self._pending = self._pending, []
        if self._stepped or len({run.number for run in runs}) <= 1:
            if runs and self._selected():
                self._import(runs, self.current_step)
            return
        by_number: dict[int, list[Iteration]] = {}
        for run in runs:  # step() was never called: the runtime's own count is all there is
            by_number.setdefault(run.number, []).append(run)
        for number, found in by_number.items():
            step = self.init_step + number
            if self._chosen.step(step) and self._chosen.rank(self._rank or 0):
                self._import(found, step)
            else:
                self._forget(found)

    def _forget(self, runs: list[Iteration]) -> None:
        """What was not asked for: a CPU writes it all the same."""
        if self._asked.facts.on_cpu:
            for run in runs:
                remove_files(run)

    def _import(self, runs: list[Iteration], step: int) -> None:
        folder = self._places.folder(self._root, step, self._rank)
        plan = self._plan()
        count = import_iterations(self._native, runs, folder, plan)
        if plan.non_finite:
            self._forget(runs)  # what overflowed is in our store, the rest is of no interest
            logger.info("step %d: %d kernels with NaN or infinities, in %s", step, count, folder)
        else:
            logger.info("step %d: %d records of kernels are in %s", step, count, folder)

    def _plan(self) -> ImportPlan:
        config, on_cpu = self.config, self._asked.facts.on_cpu
        header = {"producer": "cpu-fallback"} if self._asked.differently else {}
        if config.task == "overflow_check":
            return ImportPlan(config.task, (*FOUR, *_NON_FINITE), header, non_finite=True)
        words = tuple(categories(config.section.summary_mode, self._asked.facts.version))
        if config.task == "tensor":
            return ImportPlan(config.task, tuple(dict.fromkeys((*FOUR, *words))), header)
        return ImportPlan(config.task, words, header, reduce=on_cpu)

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
