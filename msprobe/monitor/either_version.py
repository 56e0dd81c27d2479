"""Watches a training by a configuration of either version, for callbacks and ``msprobe run --monitor``.

A configuration with ``monitors`` is one of the second version. The steps of the first optimizer that holds parameters
of the model end the steps.
"""

from __future__ import annotations

from collections.abc import Callable
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


class _OfAnyFramework(TrainerMon):
    def __init__(self, source: Source, framework: str) -> None:
        self._framework = framework
        super().__init__(source)

    def make_watch(self) -> TrainingWatch:  # type: ignore[override]
        return make_watch(self._framework)
