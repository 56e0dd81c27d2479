"""Watch a program without lines of msprobe: ``msprobe run --monitor`` loads this when torch has been imported.

The model is found as for collection (``auto_attach.Attachment``). It is watched from its first call in a training on;
evaluation is left out, because calls in evaluation mode are not reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from msprobe.adapters.pytorch.auto_attach import Attachment, ignore
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.monitor.either_version import watch_training


def attach(request: str, note: Callable[..., None] = ignore) -> None:
    """Watch this process.

    Args:
        request: JSON with ``monitor`` (a path; nothing is watched without) and ``model`` (a class name or null).
        note: as for ``auto_attach.attach``.
    """
    options = json.loads(request)
    if options.get("monitor"):
        MonitorAttachment(options["monitor"], options.get("model"), note).install()


class MonitorAttachment(Attachment):
    """Finds the model, and begins to watch it.

    Args:
        config: the configuration of the monitor.
        model: the class of the model, or None.
        note: as for ``auto_attach.attach``.
    """

    def __init__(self, config: str, model: str | None, note: Callable[..., None]) -> None:
        super().__init__(config, model, lambda: None, note)  # there is no debugger to make
        self._stop: Callable[[], None] | None = None

    def _start(self) -> None:
        self._running, self._paused = True, False
        if self._stop is not None:
            return
        try:
            self._stop = watch_training(self._config, "pytorch", self._model)
            self._note("watched")
            logger.info("the monitor is attached to %s", type(self._model).__name__)
        except (MsprobeException, OSError) as error:
            self._disabled = True
            logger.error("msprobe run: nothing is watched: %s", error)

    def _forget_step(self) -> None:
        """Keep what there is: evaluation is not in it."""
        self._running = False

    def _pause(self) -> None:
        """Evaluation is not reported anyway."""

    def _end(self) -> None:
        if not self._optimizers and os.getpid() == self._process and not self._running:
            self._calls.learn_from_step()

    def _conclude(self) -> None:
        if os.getpid() != self._process:
            return
        if self._stop is not None:
            self._stop()
        elif not self._disabled:
            self._note("reason", text="no model was called in a training")
