"""A session whose configuration file is watched (``dump_enable``): switched and rebuilt while training runs.

The file is looked at before a start acts and after stop and step have acted. Switched off, start and stop do nothing
and step only counts; what was recorded is published first. Any other change closes the present step and builds the
session anew: steps, rank, models and registered APIs stay. A step that was closed with records in it is not opened
again under the same folder (it would be overwritten): there, collection goes on with the next step. A file that cannot
be used switches collection off until it can.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session import DumpSession, MakeBackend
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger


class WatchedSession(DumpSession):
    """Collects as the file says at the time.

    Args:
        watch: the file; None for a configuration that did not come from one, which so never changes.
    """

    def __init__(self, config: DumpConfig, make_backend: MakeBackend, watch: ConfigWatch | None) -> None:
        super().__init__(config, make_backend)
        self.enabled = bool(config.dump_enable)
        self._watch = watch
        self._model: Callable[[], Any] | None = None
        self._asked: dict[str, Any] | None = None
        self._asked_enabled = self.enabled
        self._reloaded = False
        self._stale = False
        self._fault = ""
        self._spent: tuple[Path, int] | None = None

    def start(
        self, model: Any = None, rank_id: int | None = None, token_range: Any = None, scheduled_tokens: Any = None
    ) -> None:
        self.check()
        self._remember(model)
        self._asked = {"rank_id": rank_id, "token_range": token_range, "scheduled_tokens": scheduled_tokens}
        self._start(model, self._asked)

    def stop(self) -> None:
        self._asked = None
        if self.enabled:
            super().stop()
        self.check()

    def step(self, dump: bool = True) -> None:
        super().step(dump)
        self.check()
        if self._asked is not None and not self.running:  # it was never stopped, so it goes on under what holds now
            self._start(None, self._asked)

    def save(self, value: Any, name: str, backward: bool = True) -> None:
        if self.enabled:
            super().save(value, name, backward)

    def abandon(self) -> None:
        self._asked = None
        super().abandon()

    def check(self, force: bool = False) -> bool:
        """Look at the file (``force``: now); whether something was reloaded."""
        reloaded = None if self._watch is None else self._watch.poll(self.enabled, force)
        if reloaded is None:
            return False
        if reloaded.config is None:
            self._refuse(reloaded.fault)
            return True
        config, self._fault = reloaded.config, ""
        self._asked_enabled = self._asked_enabled if config.dump_enable is None else config.dump_enable
        try:
            if self._stale or _without_switch(config) != _without_switch(self.config):
                self._rebuild(config)
        except MsprobeException as error:
            self._refuse(str(error))
            return True
        self._switch(self._asked_enabled)
        logger.info("the configuration has changed: collection is %s", "on" if self.enabled else "off")
        return True

    # ---- inside ----

    def _start(self, model: Any, asked: dict[str, Any]) -> None:
        if not self.enabled:
            return
        if self._spent == (self._root, self.current_step):
            logger.info("step %d holds records of the earlier configuration: the next one is collected", self._spent[1])
            return
        try:
            super().start(self._known_model() if model is None else model, **asked)
        except MsprobeException as error:
            if not self._reloaded:
                raise
            self._refuse(str(error))  # an edit of the file must not end the training

    def _switch(self, enabled: bool) -> None:
        if self.enabled and not enabled:
            super().stop()
        self.enabled = enabled

    def _refuse(self, fault: str) -> None:
        if fault != self._fault:
            logger.warning("the changed configuration is not used, collection is off until it is good: %s", fault)
        self._fault = fault
        self._switch(False)

    def _rebuild(self, config: DumpConfig) -> None:
        """Everything that follows from the configuration, anew."""
        self._stale = self._reloaded = True
        self._wanted = False  # the new backend knows no models yet: only a start goes on
        empty = self._step is None or not self._step.recording.recorded
        self._detach()
        if self._step is None:
            self._await_no_more()
        else:
            self._close_step(discard=empty)
            self._spent = self._spent if empty else (self._root, self.current_step)
        moved = config.dump_path != self.config.dump_path
        self.renew(config, self._make_backend)
        if moved:
            self._root = Path(config.dump_path).absolute()
        self._stale = False

    def _remember(self, model: Any) -> None:
        """A model given at a level that needs none is needed when the level changes."""
        if model is None:
            return
        several = isinstance(model, (list, tuple))
        try:
            known = [weakref.ref(part) for part in (model if several else [model])]
        except TypeError:  # no model at all: at levels that need none nobody has looked at it
            return
        self._model = lambda: [part() for part in known] if several else known[0]()

    def _known_model(self) -> Any:
        return None if self._model is None else self._model()


def _without_switch(config: DumpConfig) -> DumpConfig:
    return config.model_copy(update={"dump_enable": None})


def watch_of(source: Any, given: Mapping[str, Any], accept: Callable[[DumpConfig], None]) -> ConfigWatch | None:
    """The watch of a configuration file; None for a configuration from elsewhere."""
    return ConfigWatch(source, given, accept) if isinstance(source, (str, os.PathLike)) else None


def open_session(config: DumpConfig, make_backend: MakeBackend, watch: ConfigWatch | None) -> DumpSession:
    """The session for ``config``: one that watches its file when ``dump_enable`` is given."""
    if config.dump_enable is None:
        return DumpSession(config, make_backend)
    return WatchedSession(config, make_backend, watch)
