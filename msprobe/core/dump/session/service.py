"""``debugger.config`` and ``debugger.service``: internals of the debugger that integrations read and write.

    debugger.config.dump_path                                stays what it was: the stable prefix
    debugger.service.config.dump_path = "dump/actor_update"  the next start() collects there

Both are copies. Writing to ``dump_path`` and to the counters below takes effect; all other fields are for reading.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msprobe.core.capture.function_calls import Called
from msprobe.core.config import DumpConfig, IntRanges
from msprobe.core.config.normalize import SECTIONS
from msprobe.core.dump.session import process_debugger
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.host import LOCAL_ONLY, is_url
from msprobe.core.log import first_time, logger


class Settings(SimpleNamespace):
    """The fields of a configuration as plain values: the common ones, and those of the active task's section."""


def settings_of(config: DumpConfig, framework: str) -> Settings:
    """Return a mutable copy of ``config``; ranges and names are lists, as in the file."""
    common = {name: getattr(config, name) for name in DumpConfig.model_fields if name not in SECTIONS}
    section = config.section
    specific = {(info.alias or name): getattr(section, name) for name, info in type(section).model_fields.items()}
    return Settings(**{name: _plain(value) for name, value in {**specific, **common}.items()}, framework=framework)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (IntRanges, tuple, frozenset)) else value


class Service:
    """The running collection of the process. It works on the current session, which a fork or a reload replaces."""

    def __init__(self, session: DumpSession) -> None:
        self.config = settings_of(session.config, session.backend.name)
        self.should_stop_service = bool(session.config.task_spec.no_collection)
        self._source = session.config
        self._applied = str(session.config.dump_path)

    def before_start(self) -> bool:
        """Apply what was written to this object; return whether this start may collect.

        It may not when ``should_stop_service`` was set, as it is for a task that collects nothing, or ``dump_path`` is
        a URL now. Both are logged once.
        """
        session = process_debugger.current()
        if (note := session.config.task_spec.no_collection) and first_time(("no collection", note)):
            logger.warning("task %s: %s", session.config.task, note)
        if session.config is not self._source:
            self._follow(session.config)
        dump_path = str(self.config.dump_path)
        if is_url(dump_path):
            if first_time(("dump_path", dump_path)):
                logger.error("nothing is collected: dump_path %s: is a URL; %s", dump_path, LOCAL_ONLY)
            return False
        if dump_path != self._applied:
            session.move(dump_path)
            self._applied = dump_path
        return not self.should_stop_service

    def reset_status(self) -> None:
        """Close the files of the current step without counting it; call numbers begin at 0 again."""
        with process_debugger.LOCK:
            process_debugger.current().reset()

    _reset_status = reset_status

    @property
    def first_start(self) -> bool:
        """Whether no start has taken effect in this step yet. Set to True, it makes the next start ask for the rank."""
        return not process_debugger.current().opened

    @first_start.setter
    def first_start(self, value: bool) -> None:
        if value:
            process_debugger.current().forget_rank()

    @property
    def current_iter(self) -> int:
        """The number of the current step: ``init_step`` + ``loop``."""
        return int(process_debugger.current().current_step)

    @current_iter.setter
    def current_iter(self, value: int) -> None:
        session = process_debugger.current()
        session.loop = value - session.init_step

    @property
    def loop(self) -> int:
        """The number of steps that have ended."""
        return int(process_debugger.current().loop)

    @loop.setter
    def loop(self, value: int) -> None:
        process_debugger.current().loop = value

    def repeat_number(self) -> None:
        """Give the step that comes next the number of the one that has ended."""
        process_debugger.current().loop -= 1

    def return_reads(self) -> None:
        """Give what the program has read in this step, which is going to be forgotten, to the step before it."""
        session = process_debugger.current()
        if isinstance(session, DumpSession):
            session.return_reads()

    @property
    def opened(self) -> bool:
        """Whether the present step is recorded."""
        session = process_debugger.current()
        return isinstance(session, DumpSession) and session.opened

    def hold_functions(self) -> None:
        """See functions that the program looks up before the next start."""
        session = process_debugger.current()
        if isinstance(session, DumpSession):
            session.hold_functions()

    def leave_out_thread(self, left_out: bool) -> None:
        """Record nothing that this thread calls from here on, or record it again."""
        session = process_debugger.current()
        if isinstance(session, DumpSession):
            session.thread.busy = left_out

    def watch_functions(self, called: Called) -> bool:
        """Tell ``called`` of each call of a function (``DumpSession.watch_functions``)."""
        session = process_debugger.current()
        return isinstance(session, DumpSession) and session.watch_functions(called)

    def flush(self) -> None:
        """Write what the step has recorded so far, so that it survives the process."""
        session = process_debugger.current()
        if isinstance(session, DumpSession):
            session.flush()

    @property
    def init_step(self) -> int:
        """The number of the first step."""
        return int(process_debugger.current().init_step)

    @init_step.setter
    def init_step(self, value: int) -> None:
        process_debugger.current().init_step = value

    def _follow(self, config: DumpConfig) -> None:
        """Copy a configuration that was reloaded, but keep a folder that was written to this object."""
        dump_path = self.config.dump_path if config.dump_path == self._source.dump_path else config.dump_path
        vars(self.config).update(
            vars(settings_of(config, process_debugger.current().backend.name)), dump_path=dump_path
        )
        self._source = config
