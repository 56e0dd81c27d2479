"""``TrainerMonitorV2``: the second version of the training monitor.

monitor = TrainerMonitorV2("monitor.json")
monitor.start(model=model, optimizer=optimizer)      # each optimizer.step() ends a step
...
monitor.stop()
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.dump.record.error_boundary import log_unexpected
from msprobe.core.errors import MsprobeException
from msprobe.core.host import require_local
from msprobe.core.log import logger
from msprobe.monitor.frameworks import make_watch
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.settings.reading import Source
from msprobe.monitor.settings.second_version import plan_of, read_second_version
from msprobe.monitor.sinks.choice import make_sink
from msprobe.monitor.sinks.second_csv import SecondCsv


class TrainerMonitorV2:
    """Watches a training as a configuration says.

    Args:
        config_path: the configuration: a file, or a dict.
        fr: the framework, in place of the one in the configuration.

    Raises:
        ConfigError: a setting is wrong; it is a TypeError or a ValueError as well.
    """

    def __init__(self, config_path: Source, fr: str | None = None) -> None:
        self.settings = read_second_version(config_path)
        require_local(self.settings.output_dir, "output_dir")
        self._watch = make_watch(fr or self.settings.framework)
        self._session: MonitorSession | None = None
        self._by_optimizer = False
        self._warned = False

    @log_unexpected
    def start(self, model: Any = None, optimizer: Any = None, **context: Any) -> None:
        """Watch a model from now on.

        Args:
            model: the model, or the chunks of one.
            optimizer: its steps end the steps of the monitor, unless ``patch_optimizer_step`` is false.
            context: ``start_iteration``, the number of the next step; other keywords have no effect.

        Raises:
            MsprobeException: there is no model.
        """
        if model is None:
            raise MsprobeException(0, "TrainerMonitorV2.start: give the model that is watched: start(model=...)")
        if self._session is not None:
            self._session.detach()
        chosen = self.settings.patch_optimizer_step
        self._by_optimizer = optimizer is not None if chosen is None else chosen
        plan = plan_of(self.settings, ends_by_hand=not self._by_optimizer)
        rank = self._watch.rank()
        folder = Path(self.settings.output_dir).absolute() / f"rank_{rank}"
        first = int(context.get("start_iteration", 0))
        csv = SecondCsv(folder, self.settings.start_step, self.settings.step_count_per_record, plan.micro_steps)
        sink = make_sink(self.settings.format, csv, folder, rank)
        self._session = MonitorSession(plan, self._watch, [sink], first)
        self._session.attach(list(model) if isinstance(model, (list, tuple)) else [model], optimizer)

    @log_unexpected
    def step(self, from_optimizer: bool = False) -> None:
        """End the step by hand; where the optimizer ends steps, this has no effect."""
        if self._session is None:
            return
        if self._by_optimizer:
            if not self._warned:
                logger.warning("TrainerMonitorV2: steps of the optimizer end the steps; step() has no effect")
            self._warned = True
            return
        self._session.end_step()

    @log_unexpected
    def stop(self) -> None:
        """Take all hooks away, and write what is there."""
        if self._session is not None:
            self._session.detach()
            self._session = None
