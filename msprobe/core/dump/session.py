"""The life of a collection: start, stop, step. The only state machine of a dump, independent of any framework.

    idle --start--> running --stop--> paused --start--> running ... --step--> idle (next step)

While running the taps are attached. Between stop and step the calls that already ran may still bring gradients. A
step that the configuration leaves out attaches nothing at all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.stack import StackTable
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.collector import Collector
from msprobe.core.dump.leaf import LeafTask
from msprobe.core.dump.plan import DumpPlan
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import ErrorLog
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger, set_rank
from msprobe.core.selection.build import build_selection
from msprobe.core.store.layout import DUMP, ERRORS, TENSORS, process_folder, step_folder
from msprobe.core.store.sink import DirectorySink

MakeBackend = Callable[[DumpConfig, Relay, ThreadState], Backend]


class DumpSession:
    """Collects one process's calls, step by step, as one configuration says.

    Args:
        config: what to collect.
        make_backend: builds the framework's capabilities around this session's relay and per-thread state.
    """

    def __init__(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        self.config = config
        self.relay = Relay()
        self.thread = ThreadState()
        self.backend = make_backend(config, self.relay, self.thread)
        self._plan = DumpPlan.of(config)
        self._root = Path(config.dump_path).absolute()
        self._stacks = StackTable()
        self._first_step = 0
        self._loop = 0
        self._rank: int | None = None
        self._step: _Step | None = None
        self._taps: contextlib.ExitStack | None = None
        self._finished = False
        self._wanted = False  # between start and stop, whether or not the present step is recorded

    @property
    def current_step(self) -> int:
        return self._first_step + self._loop

    @property
    def running(self) -> bool:
        return self._taps is not None

    def set_init_step(self, step: int) -> None:
        """Number the steps from ``step`` on."""
        self._first_step, self._loop = step, 0

    def start(self, model: Any = None, rank_id: int | None = None) -> None:
        """Begin or go on collecting. Does nothing in a step or rank that the configuration leaves out.

        Raises:
            MsprobeException: the level needs a model and there is none, or it is of the wrong type.
        """
        if self._plan.modules:
            self._adopt(model)
        self._wanted = True
        if self._taps is not None or not self._selected_step() or not self._selected_rank(rank_id):
            return
        if self._step is None:
            self._step = self._open_step()
        self._attach()

    def stop(self) -> None:
        """Stop observing calls and publish the documents; gradients of calls that ran still arrive until ``step``."""
        self._wanted = False
        if self._taps is None:
            return
        self._detach()
        if self._step is not None:
            self._step.sink.publish()
            logger.info("%s is at %s", DUMP, self._step.sink.folder.parent)

    def step(self) -> None:
        """End the step: publish, and number everything from 0 again. Collecting goes on if it was not stopped."""
        self._detach()
        self._close_step()
        self._loop += 1
        if self._wanted and self._selected_step() and self._selected_rank(None):
            self._step = self._open_step()
            self._attach()

    def focus(self, module: Any, name: str) -> None:
        """Record the calls of ``module`` alone, under ``name``, and nothing inside it, until ``focus_end``."""
        modules = self.backend.modules
        assert modules is not None
        modules.focus(module, name)
        if self._taps is not None and self._step is not None:
            self._detach()
            self._taps = contextlib.ExitStack()
            self._taps.enter_context(modules.attach())
            self._step.watch_parameters()

    def focus_end(self) -> None:
        """Record everything again."""
        if self.backend.modules is not None:
            self.backend.modules.focus_end()
        if self._taps is not None:
            self._detach()
            self._attach()

    def close(self) -> None:
        """At the end of the process: what was not stopped is published all the same."""
        self._wanted = False
        self._detach()
        self._close_step()

    def abandon(self) -> None:
        """In a forked child: unhook everything without touching the parent's files."""
        self.relay.observer = None
        self._step = None
        if self._taps is not None:
            self._detach()

    # ---- inside ----

    def _adopt(self, model: Any) -> None:
        assert self.backend.modules is not None
        if model is None:
            raise MsprobeException(
                0, f"level {self.config.level} needs the model: call start(model=...), or use level L1, which does not"
            )
        self.backend.modules.adopt(model)

    def _selected_step(self) -> bool:
        steps = self.config.step
        if not steps or self.current_step in steps:
            return True
        if self.current_step > steps.last and not self._finished:
            self._finished = True
            logger.info("all steps asked for (up to %d) are over: nothing more is collected", steps.last)
        return False

    def _selected_rank(self, rank_id: int | None) -> bool:
        if self._rank is None:
            self._rank = rank_id if rank_id is not None else self.backend.runtime.rank()
            set_rank(self._rank)
        wanted = self.config.rank
        if not wanted or (self._rank is not None and self._rank in wanted):
            return True
        if not self._finished:
            self._finished = True
            logger.warning(
                "nothing is collected: the configuration asks for rank %s, this process is %s",
                ", ".join(str(rank) for rank in list(wanted)[:8]),
                "without a rank" if self._rank is None else f"rank {self._rank}",
            )
        return False

    def _open_step(self) -> _Step:
        folder = process_folder(step_folder(self._root, self.current_step), self._rank, os.getpid())
        step = _Step(self, folder)
        for tap in (self.backend.apis, self.backend.modules):
            if tap is not None:
                tap.reset()
        logger.info("collecting step %d into %s", self.current_step, folder)
        return step

    def _attach(self) -> None:
        assert self._step is not None
        backend, plan, step = self.backend, self._plan, self._step
        taps = contextlib.ExitStack()
        self.thread.scopes.clear()
        if plan.apis and backend.apis is not None:
            taps.enter_context(backend.apis.attach())
        if plan.modules and backend.modules is not None:
            taps.enter_context(backend.modules.attach())
            step.watch_parameters()
            if plan.construct and plan.apis and backend.optimizers is not None:
                taps.enter_context(backend.optimizers.attach())
        self.relay.observer = step.collector
        self._taps = taps

    def _detach(self) -> None:
        if self._taps is not None:
            taps, self._taps = self._taps, None
            taps.close()
            self.thread.scopes.clear()

    def _close_step(self) -> None:
        if self._step is not None:
            step, self._step = self._step, None
            self.relay.observer = None
            step.close()


class _Step:
    """What exists once per recorded step: the collector, its sink, and the hooks on parameters."""

    def __init__(self, session: DumpSession, folder: Path) -> None:
        config, backend, plan = session.config, session.backend, session._plan
        selection = build_selection(config)
        saves = plan.bodies and (plan.save_all or selection.tensors is not None)
        header = {
            "task": config.task,
            "level": config.level,
            "framework": backend.name,
            "dump_data_dir": str(folder / TENSORS) if saves else None,
        }
        self._session = session
        self.sink = DirectorySink(folder, header, extra_info=config.extra_info, tensors=saves)
        self.sink.statistics = backend.ops
        tensors = folder / TENSORS if saves and not self.sink.failed else None
        leaves = LeafTask(backend.ops, str(config.section.summary_mode), tensors)
        self.recording = Recording(plan, selection, backend, leaves, self.sink)
        self.recording.errors = ErrorLog(folder / ERRORS)
        self.collector = Collector(self.recording, backend, session.thread, session._stacks)
        self.sink.early = self.collector.early
        self._selection = selection
        self._unwatch: Callable[[], None] | None = None

    def watch_parameters(self) -> None:
        """Observe the gradients of the parameters from now until the step ends."""
        modules = self._session.backend.modules
        if modules is not None and self._selection.modes.parameters_grad:
            if self._unwatch is not None:
                self._unwatch()
            self._unwatch = modules.attach_gradients()

    def close(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self.collector.finish()
        self._explain_empty()
        self.sink.close()

    def _explain_empty(self) -> None:
        if self.recording.recorded or self.sink.failed:
            return
        filters = self._selection.describe()
        names = ", ".join(self.recording.passed_over)
        if names:
            reason = f"{filters} let nothing through; names seen: {names}"
        elif filters:
            reason = f"no call was seen that {filters} could choose from"
        else:
            reason = (
                "no call was seen between start and stop"
                if self._session.config.level != "L1" or self._session.config.risk_level == "ALL"
                else f"no API of risk_level {self._session.config.risk_level} was called (risk_level ALL records all)"
            )
        logger.warning("step is empty (%s): %s", self.sink.folder, reason)
