"""A session whose configuration file is watched (``dump_enable``): switched and rebuilt while training runs.

The file is looked at before ``start`` acts, and after ``stop`` and ``step`` have acted. When collection is switched
off, what was recorded is published; then ``start`` and ``stop`` do nothing and ``step`` only counts. Any other change
closes the current step and builds the session anew: steps, rank, models and registered APIs stay. A step that was
closed with records in it is not opened again in the same folder, which it would overwrite: collection continues with
the next step. A file that cannot be used switches collection off until it can.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session.session import DumpSession, MakeBackend
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import let_through
from msprobe.core.log import logger


class WatchedSession(DumpSession):
    """Collect as the file says at that time.

    Args:
        watch: the file; None for a configuration from elsewhere, which never changes.
        config, make_backend, label: as those of ``DumpSession``.
    """

    def __init__(
        self,
        config: DumpConfig,
        make_backend: MakeBackend,
        watch: ConfigWatch | None,
        label: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(config, make_backend, label)
        self.enabled = bool(config.dump_enable)
        self._watch = watch
        self._model: Callable[[], Any] | None = None
        self._start_arguments: dict[str, Any] | None = None  # those of the last start, until stop
        self._enabled_in_file = self.enabled
        self._reloaded = False
        self._incomplete = False  # a change of the configuration failed half-way
        self._fault = ""
        self._step_not_to_reopen: tuple[Path, int] | None = None  # it has records of an earlier configuration

    def start(
        self,
        model: Any = None,
        rank_id: int | None = None,
        token_range: Any = None,
        scheduled_tokens: Any = None,
        computed_tokens: Any = None,
    ) -> None:
        self.check()
        self._remember(model)
        self._start_arguments = {
            "rank_id": rank_id,
            "token_range": token_range,
            "scheduled_tokens": scheduled_tokens,
            "computed_tokens": computed_tokens,
        }
        self._start(model, self._start_arguments)

    def stop(self) -> None:
        self._start_arguments = None
        if self.enabled:
            super().stop()
        self.check()

    def step(self, dump: bool = True) -> None:
        super().step(dump)
        self.check()
        if self._start_arguments is not None and not self.running:  # it was never stopped, so it continues
            self._start(None, self._start_arguments)

    def save(self, value: Any, name: str, backward: bool = True) -> None:
        if self.enabled:
            super().save(value, name, backward)

    def abandon(self) -> None:
        self._start_arguments = None
        super().abandon()

    def check(self, force: bool = False) -> bool:
        """Look at the file, with ``force`` at once; return whether something was reloaded."""
        reloaded = None if self._watch is None else self._watch.poll(self.enabled, force)
        if reloaded is None:
            return False
        if reloaded.config is None:
            self._reject(reloaded.fault)
            return True
        config, self._fault = reloaded.config, ""
        self._enabled_in_file = self._enabled_in_file if config.dump_enable is None else config.dump_enable
        try:
            if self._incomplete or _without_switch(config) != _without_switch(self.config):
                self._rebuild(config)
        except MsprobeException as error:
            self._reject(str(error))
            return True
        self._switch(self._enabled_in_file)
        logger.info("the configuration has changed: collection is %s", "on" if self.enabled else "off")
        return True

    # ---- internals ----

    def _start(self, model: Any, arguments: dict[str, Any]) -> None:
        if not self.enabled:
            self.requests.count(arguments["scheduled_tokens"], arguments["computed_tokens"])
            return
        if self._step_not_to_reopen == (self._root, self.current_step):
            logger.info(
                "step %d holds records of the earlier configuration: the next one is collected",
                self.current_step,
            )
            return
        try:
            super().start(self._last_model() if model is None else model, **arguments)
        except MsprobeException as error:
            if not self._reloaded:
                raise
            self._reject(str(error))  # an edit of the file must not end the training

    def _switch(self, enabled: bool) -> None:
        if self.enabled and not enabled:
            super().stop()
        self.enabled = enabled

    def _reject(self, fault: str) -> None:
        if fault != self._fault:
            logger.warning("the changed configuration is not used, collection is off until it is good: %s", fault)
        self._fault = fault
        self._switch(False)

    def _rebuild(self, config: DumpConfig) -> None:
        """Close the current step, and make everything that follows from the configuration anew."""
        self._incomplete = self._reloaded = True
        self._started = False  # the new backend knows no models yet: only a start continues
        empty = self._step is None or not self._step.recorder.record_count
        self._detach()
        if self._step is None:
            self._drop_lazy()
        else:
            self._close_step("reset", discard=empty)
            self._step_not_to_reopen = self._step_not_to_reopen if empty else (self._root, self.current_step)
        moved = config.dump_path != self.config.dump_path
        self.renew(config, self._make_backend)
        if moved:
            self._root = Path(config.dump_path).absolute()
        self._incomplete = False

    def _remember(self, model: Any) -> None:
        """Keep weak references to the model: a level that needs none may change to one that does."""
        if model is None:
            return
        several = isinstance(model, (list, tuple))
        try:
            references = [weakref.ref(part) for part in (model if several else [model])]
        except TypeError as error:  # no model: levels that need none have not checked it
            let_through(error)
            return
        self._model = lambda: [part() for part in references] if several else references[0]()

    def _last_model(self) -> Any:
        return None if self._model is None else self._model()


def _without_switch(config: DumpConfig) -> DumpConfig:
    return config.model_copy(update={"dump_enable": None})


def watch_of(source: Any, arguments: Mapping[str, Any], accept: Callable[[DumpConfig], None]) -> ConfigWatch | None:
    """Return the watch of a configuration file; None for a configuration from elsewhere."""
    return ConfigWatch(source, arguments, accept) if isinstance(source, (str, os.PathLike)) else None


def open_session(
    config: DumpConfig,
    make_backend: MakeBackend,
    watch: ConfigWatch | None,
) -> DumpSession:
    """Return the session for ``config``; with ``dump_enable`` it watches its file.

    Args:
        config, make_backend: as those of ``DumpSession``.
        watch: as that of ``WatchedSession``.
    """
    if config.dump_enable is None:
        return DumpSession(config, make_backend)
    return WatchedSession(config, make_backend, watch)
