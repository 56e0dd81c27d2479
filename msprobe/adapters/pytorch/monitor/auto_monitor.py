"""Watch a program without lines of msprobe: ``msprobe run --monitor`` loads this when torch has been imported.

Models and iterations are those of a collection (``attach``). A model is watched from its first call in a training on;
evaluation is left out, because calls in evaluation mode are not reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import nn

from msprobe.adapters.pytorch.attach.attachment import Attachment, Note, ignore
from msprobe.core.capture.function_calls import Called
from msprobe.monitor.either_version import WatchedIterations


def attach(request: str, note: Note = ignore) -> None:
    """Watch this process.

    Args:
        request: JSON with ``monitor`` (a path; nothing is watched without), ``model`` (a class name or null) and
            ``first_step`` (the number of the first step).
        note: as for ``auto_attach.attach``.
    """
    options = json.loads(request)
    if options.get("monitor"):
        steps = MonitorSteps(options["monitor"], options.get("first_step") or 0)
        Attachment(steps, options.get("model"), note).install()


class MonitorSteps:
    """Implements ``attach.collection.Collection``: each iteration is a step of the monitor.

    Args:
        config: the configuration of the monitor.
        first_step: the number of the first step.
    """

    subject = "the monitor"
    event = "watched"

    def __init__(self, config: str, first_step: int) -> None:
        self._config = config
        self._first_step = first_step
        self._watched: WatchedIterations | None = None
        self._models: set[int] = set()
        self._ended = False  # the iteration that runs is written

    def expect(self) -> None:
        """Do nothing: the monitor begins with a model."""

    def start(self, models: Mapping[str, nn.Module]) -> None:
        """Watch the models that are not watched yet. Raises MsprobeException, OSError."""
        new = [model for model in models.values() if id(model) not in self._models]
        self._models.update(map(id, new))
        if self._watched is not None:
            for model in new:
                self._watched.add(model)
        elif new:
            self._watched = WatchedIterations(self._config, "pytorch", new, self._first_step)

    def watch_functions(self, _called: Called) -> bool:
        """Do nothing: functions are not watched."""
        return False

    def try_out(self) -> bool:
        """Do nothing: functions are not watched."""
        return False

    def keep(self) -> bool:
        """Do nothing: functions are not watched."""
        return False

    def pause(self) -> None:
        """Do nothing: evaluation is not reported anyway."""

    def leave_out_thread(self, _left_out: bool) -> None:
        """Do nothing: what is watched belongs to the models."""

    def forget(self) -> None:
        """Do nothing: what is forgotten is evaluation."""

    def complete(self) -> None:
        """End the step: what the program does after its updates is not reported."""
        if self._watched is not None and not self._ended:
            self._watched.end_step()
        self._ended = True

    def end(self) -> None:
        """End the step, if it has not."""
        self.complete()
        self._ended = False

    def settle(self) -> None:
        """Do nothing: a step that has ended is written."""

    def conclude(self) -> None:
        """Watch nothing more, and write what is there."""
        if self._watched is not None:
            self._watched.stop()
