"""What exists once per recorded step: the collector, its sink, and the hooks on parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.dump.judging import Judge
from msprobe.core.dump.kernel_level import kernel_source, make_collector
from msprobe.core.dump.points import Points
from msprobe.core.dump.shield import ErrorLog
from msprobe.core.dump.task import make_recording
from msprobe.core.log import logger
from msprobe.core.selection.build import build_selection
from msprobe.core.store.layout import DUMP, ERRORS, TENSORS
from msprobe.core.store.sink import DirectorySink

if TYPE_CHECKING:
    from msprobe.core.dump.session import DumpSession


class Step:
    """One step being recorded into ``folder``. An ``unasked`` one, opened as the step before was never stopped, leaves
    nothing behind when nothing happens in it.
    """

    def __init__(self, session: DumpSession, folder: Path, judge: Judge | None) -> None:
        config, backend, plan = session.config, session.backend, session.plan
        selection = build_selection(config)
        saves = plan.bodies and (plan.save_all or judge is not None or selection.tensors is not None)
        header = {
            "task": config.task,
            "level": config.level,
            "framework": backend.name,
            "dump_data_dir": str(folder / TENSORS) if saves else None,
            **backend.header,
            **session.label,
            **kernel_source(session),
        }
        self._session = session
        self.unasked = False
        self.sink = DirectorySink(folder, header, extra_info=config.extra_info, tensors=saves)
        tensors = folder / TENSORS if saves and not self.sink.failed else None
        self.recording = make_recording(session, selection, self.sink, tensors, judge)
        self.recording.errors = ErrorLog(folder / ERRORS)
        if session.background is not None:
            session.background.errors = self.recording.errors
        self.collector = make_collector(session, self.recording, self.sink)
        if judge is None:  # of judged calls nothing is written before the verdict
            self.sink.early = self.collector.early
        self.points = Points(self.recording, backend)
        self._selection = selection
        self._unwatch: Callable[[], None] | None = None
        if not self.sink.failed:  # the sink has said why there is no dump
            logger.info("collecting step %d into %s", session.current_step, folder)

    def publish(self) -> None:
        """Make everything so far readable, and say where."""
        self.sink.publish()
        if not self.sink.failed:
            logger.info("%s is at %s", DUMP, self.sink.folder.parent)

    def watch_parameters(self) -> None:
        """Observe the gradients of the parameters from now until the step ends."""
        modules = self._session.backend.modules
        if modules is not None and self._selection.modes.parameters_grad:
            self.unwatch_parameters()
            self._unwatch = modules.attach_gradients()

    def unwatch_parameters(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def move(self, folder: Path) -> bool:
        """Go on recording in ``folder``; False when it cannot be had."""
        session, tensors = self._session, self.recording.tensors
        if session.background is not None:
            session.background.drain()
        if not self.sink.move(folder):
            return False
        if tensors is not None and tensors.folder is not None:
            tensors.folder = folder / TENSORS
        self.recording.errors.move(folder / ERRORS)
        return True

    def close(self) -> None:
        if self.unasked and not self.recording.recorded and not self.sink.failed:
            self.discard()
            return
        self._finish()
        conclusion = self.recording.conclusion()
        if conclusion is None:
            self._explain_empty()
        else:
            logger.info("%s: %s", self.sink.folder, conclusion)
        self.sink.close()

    def discard(self) -> None:
        """Remove what was recorded, and take nothing more."""
        self._finish()
        if self._session.background is not None:
            self._session.background.drain()
        self.sink.discard()
        logger.info("what was recorded in %s is discarded", self.sink.folder)

    def _finish(self) -> None:
        """Take nothing more."""
        self.unwatch_parameters()
        self.points.finish()
        self.collector.finish()
        if self._session.backend.collectives is not None:
            self._session.backend.collectives.reset()

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
            reason = self._nothing_seen()
        logger.warning("step is empty (%s): %s", self.sink.folder, reason)

    def _nothing_seen(self) -> str:
        config = self._session.config
        if config.level == "L0":
            return "no call of a module inside the model was seen between start and stop (the model itself is no entry)"
        if config.level != "L1" or not self._session.backend.ranked:
            return "no call was seen between start and stop"
        compiled = "compiled code calls no APIs: levels L0 and mix record the modules in it"
        if config.risk_level == "ALL":
            return f"no call was seen between start and stop ({compiled})"
        return f"no API of risk_level {config.risk_level} was called (risk_level ALL records all; {compiled})"
