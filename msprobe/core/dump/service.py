"""``debugger.config`` and ``debugger.service``: the inside of the debugger that integrations read and write.

    debugger.config.dump_path                                stays what it was: the stable prefix
    debugger.service.config.dump_path = "dump/actor_update"  the next start() collects there

Both are copies. Of what is written to them, ``dump_path`` and the counters below take effect; the rest is for reading.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msprobe.core.config import DumpConfig, IntRanges
from msprobe.core.config.tidy import SECTIONS
from msprobe.core.dump import handle
from msprobe.core.dump.session import DumpSession


class Settings(SimpleNamespace):
    """The fields of a configuration as plain values, those of the active task's section beside the common ones."""


def settings_of(config: DumpConfig, framework: str) -> Settings:
    """A mutable copy of ``config``; ranges and names are lists, as in the file."""
    common = {name: getattr(config, name) for name in DumpConfig.model_fields if name not in SECTIONS}
    section = config.section
    own = {(info.alias or name): getattr(section, name) for name, info in type(section).model_fields.items()}
    return Settings(**{name: _plain(value) for name, value in {**own, **common}.items()}, framework=framework)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (IntRanges, tuple, frozenset)) else value


class Service:
    """The running collection of the process, whichever session serves it at the moment."""

    def __init__(self, session: DumpSession) -> None:
        self.config = settings_of(session.config, session.backend.name)
        self.should_stop_service = False
        self._source = session.config
        self._applied = str(session.config.dump_path)

    def before_start(self) -> bool:
        """Bring what was written to this object into effect; False when collecting was given up."""
        session = handle.current()
        if session.config is not self._source:
            self._follow(session.config)
        wanted = str(self.config.dump_path)
        if wanted != self._applied:
            session.move(wanted)
            self._applied = wanted
        return not self.should_stop_service

    def reset_status(self) -> None:
        """Close the files of the present step without counting it; call numbers begin at 0 again."""
        with handle.LOCK:
            handle.current().reset()

    _reset_status = reset_status

    @property
    def first_start(self) -> bool:
        """Whether no start has taken effect in this step yet. Set to True, the next start asks for the rank again."""
        return not handle.current().opened

    @first_start.setter
    def first_start(self, value: bool) -> None:
        if value:
            handle.current().forget_rank()

    @property
    def current_iter(self) -> int:
        """The number of the present step: ``init_step`` + ``loop``."""
        return int(handle.current().current_step)

    @current_iter.setter
    def current_iter(self, value: int) -> None:
        session = handle.current()
        session.loop = value - session.init_step

    @property
    def loop(self) -> int:
        return int(handle.current().loop)

    @loop.setter
    def loop(self, value: int) -> None:
        handle.current().loop = value

    @property
    def init_step(self) -> int:
        return int(handle.current().init_step)

    @init_step.setter
    def init_step(self, value: int) -> None:
        handle.current().init_step = value

    def _follow(self, config: DumpConfig) -> None:
        """The configuration was reloaded: show it, but keep a folder that was written here."""
        kept = self.config.dump_path if config.dump_path == self._source.dump_path else config.dump_path
        vars(self.config).update(vars(settings_of(config, handle.current().backend.name)), dump_path=kept)
        self._source = config
