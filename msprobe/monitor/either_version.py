"""Watches a training by a configuration of either version, for callbacks and ``msprobe run --monitor``.

A configuration with ``monitors`` is one of the second version. For a callback the steps of the first optimizer that
holds parameters of the model end the steps (``watch_training``); ``WatchedIterations`` leaves that to its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msprobe.core.config.load import read_source
from msprobe.monitor.frameworks import make_watch
from msprobe.monitor.settings.first_version import read_first_version
from msprobe.monitor.settings.reading import Source
from msprobe.monitor.settings.second_version import read_second_version
from msprobe.monitor.trainer_mon import TrainerMon
from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2
from msprobe.monitor.watch import TrainingWatch


def is_second_version(source: Source) -> bool:
    """Return whether a configuration is one of ``TrainerMonitorV2``.

    Raises:
        MsprobeException: the file cannot be used.
    """
    return "monitors" in read_source(source).raw


def check(source: Source) -> None:
    """Read a configuration of either version.

    Raises:
        MsprobeException: it cannot be used.
    """
    if is_second_version(source):
        read_second_version(source)
    else:
        read_first_version(source)


def watch_training(
    source: Source, framework: str, model: Any, micro_steps: int = 1, first_step: int = 0
) -> Callable[[], None]:
    """Watch a model from now on, and return what ends that.

    Args:
        source: the configuration.
        framework: ``pytorch`` or ``mindspore``.
        model: the model.
        micro_steps: how many backward passes make a step.
        first_step: the number of the next step.

    Raises:
        MsprobeException: the configuration cannot be used.
    """
    if is_second_version(source):
        second = TrainerMonitorV2(source, fr=framework)
        second.settings = second.settings.model_copy(update={"patch_optimizer_step": True})
        second.start(model=model, start_iteration=first_step)
        return second.stop
    first = _OfAnyFramework(source, framework)
    first.set_monitor(model, None, grad_acc_steps=micro_steps, start_iteration=first_step)
    return first.stop


class WatchedIterations:
    """Watches a training whose caller says when a step ends, and may name further models in the middle of one.

    Where the first version is switched on and off by its file (``DYNAMIC_MONITOR``), steps of the optimizer end steps.

    Args:
        source: the configuration.
        framework: ``pytorch`` or ``mindspore``.
        models: those that are known.
        first_step: the number of the next step.

    Raises:
        MsprobeException: the configuration cannot be used.
    """

    def __init__(self, source: Source, framework: str, models: Sequence[Any], first_step: int = 0) -> None:
        self._monitor: _SecondByHand | _OfAnyFramework
        if is_second_version(source):
            self._monitor = _SecondByHand(source, framework)
            self._monitor.start(model=list(models), start_iteration=first_step)
        else:
            self._monitor = _OfAnyFramework(source, framework, ends_by_hand=True)
            self._monitor.set_monitor(list(models), None, start_iteration=first_step)

    def add(self, model: Any) -> None:
        """Watch one more model."""
        self._monitor.add(model)

    def end_step(self) -> None:
        """End the step."""
        self._monitor.end_step()

    def stop(self) -> None:
        """Take all hooks away, and write what is there."""
        self._monitor.stop()


class _SecondByHand(TrainerMonitorV2):
    def __init__(self, source: Source, framework: str) -> None:
        super().__init__(source, fr=framework)
        self.settings = self.settings.model_copy(update={"patch_optimizer_step": False})

    def add(self, model: Any) -> None:
        if self._session is not None:
            self._session.add(model)

    def end_step(self) -> None:
        self.step()


class _OfAnyFramework(TrainerMon):
    def __init__(self, source: Source, framework: str, ends_by_hand: bool = False) -> None:
        self._framework = framework
        super().__init__(source)
        self._ends_by_hand = ends_by_hand

    def add(self, model: Any) -> None:
        if self._training is not None:
            self._training.models.append(model)
        if self._session is not None:
            self._session.add(model)

    def end_step(self) -> None:
        if self._session is not None and self._session.plan.ends_by_hand:
            self._session.end_step()

    def make_watch(self) -> TrainingWatch:  # type: ignore[override]
        return make_watch(self._framework)
