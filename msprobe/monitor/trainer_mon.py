"""``TrainerMon``: the first version of the training monitor, with its documented methods and files.

monitor = TrainerMon("monitor.json", params_have_main_grad=False)
monitor.set_monitor(model, optimizer, grad_acc_steps=1)         # then train as before
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msprobe.core.dump.record.error_boundary import ErrorLog, log_unexpected, never_raises
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.host import require_local
from msprobe.core.log import first_time, logger
from msprobe.monitor.alerts.reporting import Alerts, AlertSettings, make_alerts
from msprobe.monitor.config_switch import ConfigSwitch, is_dynamic
from msprobe.monitor.observers.call_stacks import CallStacks
from msprobe.monitor.observers.module_structure import ModuleStructure
from msprobe.monitor.observers.observer import CallObserver
from msprobe.monitor.rows import Row, RowSink
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.settings.first_version import plan_of, read_first_version
from msprobe.monitor.settings.reading import Source
from msprobe.monitor.sinks.choice import make_sink
from msprobe.monitor.sinks.csv_files import CsvFiles
from msprobe.monitor.sinks.last_step import LastStep, Metrics, metrics_of
from msprobe.monitor.statistics import BY_NAME
from msprobe.monitor.watch import Remove, TrainingWatch

OUTPUT_VARIABLE = "MONITOR_OUTPUT_DIR"
DEFAULT_OUTPUT = "./monitor_output"
_TIME = "%b%d_%H-%M-%S"
_RUN = re.compile(r"([A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2})-rank(\d+)-[0-9a-f]+")


class TrainerMon:
    """Watches a training as a configuration says.

    Args:
        config_file_path: the configuration: a file, or a dict.
        process_group: accepted; ranks are those of the default group.
        params_have_main_grad: accepted; ``main_grad`` is used where a parameter has one.
        opt_ty: accepted; the optimizer is looked at when ``set_monitor`` gets it.

    Raises:
        ConfigError: a setting is wrong; it is a TypeError or a ValueError as well.
    """

    def __init__(
        self,
        config_file_path: Source,
        process_group: Any = None,
        params_have_main_grad: bool = True,
        opt_ty: Any = None,
    ) -> None:
        self.settings = read_first_version(config_file_path)
        self.errors = ErrorLog(None)
        self._source = config_file_path
        self._watch = self.make_watch()
        self._session: MonitorSession | None = None
        self._training: _Training | None = None
        self._wrapped_optimizer: Any = None
        self._kept = LastStep()
        self._switch: ConfigSwitch | None = None
        self._end_switch: Remove | None = None
        self._ends_by_hand = False
        self._step = 0

    @classmethod
    def make_watch(cls) -> TrainingWatch:
        """Return the hooks of the framework; each adapter has a class of its own."""
        raise NotImplementedError

    # ---------------------------------------------------------------- beginning and end

    @log_unexpected
    def set_monitor(
        self,
        model: Any,
        optimizer: Any,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Watch ``model`` from now on.

        Args:
            model: the model, or the chunks of one.
            optimizer: its steps end the steps of the monitor.
            grad_acc_steps: how many backward passes make a step.
            tp_group, dp_group: accepted, without effect.
            start_iteration: the number of the next step.

        Raises:
            MsprobeException: an argument is wrong.
        """
        counts: tuple[tuple[str, object, int], ...] = (
            ("grad_acc_steps", grad_acc_steps, 1),
            ("start_iteration", start_iteration, 0),
        )
        for name, value, least in counts:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise MsprobeException(
                    0, f"set_monitor: {name} is a number from {least} on, got {argument_text(value)}"
                )
        self.stop()
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        self._training = _Training(models, optimizer, grad_acc_steps, self._run_folder())
        self._step = start_iteration
        if is_dynamic() and isinstance(self._source, (str, os.PathLike)):
            self._switch = ConfigSwitch(self._source)
            self._end_switch = self._watch.watch_optimizer(optimizer, self)
        else:
            self._begin(start_iteration, None)

    @log_unexpected
    def monitor_gnorm_with_ad(
        self,
        model: Any,
        optimizer: Any = None,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Do what ``set_monitor`` does; deprecated. Without an optimizer that of ``set_wrapped_optimizer`` is used."""
        _deprecated("monitor_gnorm_with_ad", "set_monitor")
        chosen = self._wrapped_optimizer if optimizer is None else optimizer
        self.set_monitor(model, chosen, grad_acc_steps, tp_group, dp_group, start_iteration)

    def set_wrapped_optimizer(self, optimizer: Any) -> None:
        """Use this optimizer in ``monitor_gnorm_with_ad``; deprecated."""
        _deprecated("set_wrapped_optimizer", "set_monitor(model, optimizer)")
        self._wrapped_optimizer = optimizer

    @log_unexpected
    def reload_xy(self, xy_distribution: bool = False) -> None:
        """Begin or cease to watch values of modules from the next step on; deprecated."""
        _deprecated("reload_xy", "dynamic_on with DYNAMIC_MONITOR=true")
        if not isinstance(xy_distribution, bool):
            raise MsprobeException(0, f"reload_xy: xy_distribution is a bool, got {argument_text(xy_distribution)}")
        self.settings = self.settings.model_copy(update={"xy_distribution": xy_distribution})
        if self._session is not None and self._training is not None:
            step = self._session.step
            self._session.detach()
            self._begin(step, None)

    @log_unexpected
    def stop(self) -> None:
        """Take all hooks away and write what is there; the published monitor runs to the end of the program."""
        if self._end_switch is not None:
            self._end_switch()
            self._end_switch = self._switch = None
        if self._session is not None:
            self._session.detach()
            self._session = None

    def _begin(self, step: int, start: int | None) -> None:
        training = self._training
        assert training is not None
        settings = self.settings
        plan = plan_of(settings, training.micro_steps, start)
        plan = dataclasses.replace(plan, ends_by_hand=self._ends_by_hand and self._switch is None)
        root, rank = output_folder(), self._watch.rank()
        observers: list[CallObserver] = [CallStacks(training.folder)] if settings.stack_info else []
        if settings.print_struct:
            observers.append(ModuleStructure(root, rank, self._watch.meter(settings.eps, False)))
        alerts = training.alerts_of(settings.alert, root, rank)
        sinks = [self._kept, *self._sinks(training.folder, step)]
        self._session = MonitorSession(plan, self._watch, sinks, step, alerts, observers=observers)
        self._session.attach(training.models, training.optimizer, by_caller=self._switch is not None)

    def _sinks(self, run: Path, first_step: int) -> Sequence[RowSink]:
        """Return what writes the rows; ``format`` api writes none, the program asks for them."""
        if self.settings.format == "api":
            return []
        csv = CsvFiles(run, first_step, self.settings.step_count_per_record, self.settings.ndigits)
        return [make_sink(self.settings.format, csv, run, self._watch.rank())]

    def _run_folder(self) -> Path:
        """Return the folder of this run: a new one, or with ``append_output`` the last one between its two times."""
        root, rank = output_folder(), self._watch.rank()
        if self.settings.append_output:
            earlier = runs_between(root, *self.settings.append_output)
            mine = [path for path, _, one in earlier if one == rank]
            if mine:
                return max(mine, key=lambda path: path.stat().st_mtime)
            tags = " and ".join(self.settings.append_output)
            logger.warning("append_output: %s has no run of rank %d between %s; a new one begins", root, rank, tags)
        return root / run_name(rank)

    # ---------------------------------------------------------------- the dynamic switch

    @never_raises
    def before_step(self, optimizer: Any) -> None:
        """Pass a step of the dynamic mode on to the session that there may be."""
        if self._session is not None:
            self._session.before_step(optimizer)

    @never_raises
    def after_step(self, optimizer: Any) -> None:
        """Look at the configuration file after a step of the dynamic mode."""
        session, switch = self._session, self._switch
        if session is None:
            self._step += 1
        else:
            session.after_step(optimizer)
            self._step = session.step  # of several optimizers one ends a step
        if switch is None:
            return
        if session is not None and session.plan.window.ended(self._step):
            self._leave(session)
            switch.switch_off()
            logger.info("monitor: collect_times is reached; set dynamic_on to true to go on")
        settings = switch.changed()
        if settings is None:
            return
        if self._session is not None:
            self._leave(self._session)
        self.settings = settings
        if settings.dynamic_on and settings.collect_times:
            logger.info("monitor: the configuration has changed; it holds from step %d on", self._step)
            self._begin(self._step, self._step)

    def _leave(self, session: MonitorSession) -> None:
        session.detach()
        self._session = None

    # ---------------------------------------------------------------- what a program may ask

    @property
    def ops(self) -> list[str]:
        """The names of the statistics; a new list holds from the next tensor on."""
        return list(self.settings.statistics)

    @ops.setter
    def ops(self, names: Sequence[str]) -> None:
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise MsprobeException(0, f"TrainerMon.ops: is a list of names, got {argument_text(names)}")
        for name in names:
            if name not in BY_NAME:
                logger.warning("ops: %s is no statistic and is left out; there are %s", name, ", ".join(BY_NAME))
        self.settings = self.settings.model_copy(update={"ops": tuple(names)})
        if self._session is not None and self._training is not None:
            sinks = [self._kept, *self._sinks(self._training.folder, self._session.step)]
            self._session.change_statistics(self.settings.statistics, sinks)

    @log_unexpected
    def generate_wgrad_metrics(self, post_grad_dict: Any = None) -> tuple[Metrics, Metrics]:
        """Return the statistics of gradients after and before reduction: of the running step, or the last one.

        Args:
            post_grad_dict: accepted, without effect.
        """
        return self._metrics("grad_reduced", "grad_unreduced")

    @log_unexpected
    def generate_xy_metrics(self) -> tuple[Metrics, Metrics]:
        """Return the statistics of values of modules and of their gradients: of the running step, or the last one."""
        return self._metrics("actv", "actv_grad")

    def _metrics(self, first: str, second: str) -> tuple[Metrics, Metrics]:
        rows: Sequence[Row] = self._session.present_rows() if self._session is not None else ()
        rank = self._watch.rank()
        rows = rows or self._kept.rows
        return metrics_of(rows, first, rank), metrics_of(rows, second, rank)

    @log_unexpected
    def adhoc_check(
        self, target_tensor: Any, module_name: str, tensor_name: str, rank_list: Sequence[int], ops_list: Sequence[str]
    ) -> None:
        """Measure a tensor of the program in the running step, into ``adhoc_check_*.csv``.

        Args:
            target_tensor: the tensor.
            module_name, tensor_name: its name in the rows: ``module.tensor``.
            rank_list: the ranks on which it is measured; empty for all.
            ops_list: the statistics.

        Raises:
            MsprobeException: there is no such statistic.
        """
        known = [name for name in ops_list if name in BY_NAME]
        if not known:
            raise MsprobeException(0, f"adhoc_check: ops_list holds none of {', '.join(BY_NAME)}")
        if self._session is not None and (not rank_list or self._watch.rank() in rank_list):
            self._session.check_by_hand(f"{module_name}.{tensor_name}", target_tensor, frozenset(known))


class _Training:
    """What ``set_monitor`` was given, and the folder of the run."""

    def __init__(self, models: list[Any], optimizer: Any, micro_steps: int, folder: Path) -> None:
        self.models = models
        self.optimizer = optimizer
        self.micro_steps = micro_steps
        self.folder = folder
        self._alerts: tuple[AlertSettings, Alerts | None] | None = None

    def alerts_of(self, settings: AlertSettings, root: Path, rank: int) -> Alerts | None:
        """Return what tells alerts; it goes on with its history where the settings are those from before."""
        if self._alerts is None or self._alerts[0] != settings:
            self._alerts = settings, make_alerts(settings, root, rank)
        return self._alerts[1]


def output_folder() -> Path:
    """Return the folder of all runs: ``MONITOR_OUTPUT_DIR``, or ``./monitor_output``.

    Raises:
        MsprobeException: it is a URL.
    """
    text = os.environ.get(OUTPUT_VARIABLE) or DEFAULT_OUTPUT
    require_local(text, OUTPUT_VARIABLE)
    return Path(text).absolute()


def run_name(rank: int) -> str:
    """Return a new name for the folder of a run: ``Dec03_21-34-40-rank0-1a2b3c4d``, in local time."""
    return f"{time.strftime(_TIME)}-rank{rank}-{secrets.token_hex(4)}"


def runs_between(root: Path, first: str | None, last: str | None) -> list[tuple[Path, str, int]]:
    """Return the folders of runs between two time tags, with their tags and ranks, in the order of their names.

    Args:
        root: the output folder of the monitor.
        first, last: time tags such as ``Dec03_21-34-40``; None leaves the range open.

    Raises:
        ValueError: one is no time tag.
    """
    low = time_of(first) if first else (0,)
    high = time_of(last) if last else (13,)
    folders = sorted(root.iterdir()) if root.is_dir() else []
    found = [(path, match) for path in folders if (match := _RUN.fullmatch(path.name))]
    return [(path, match[1], int(match[2])) for path, match in found if low <= time_of(match[1]) <= high]


def time_of(tag: str) -> tuple[int, ...]:
    """Return a time tag as numbers that can be ordered: month, day, hour, minute, second.

    Raises:
        ValueError: it is none.
    """
    parsed = time.strptime(f"2000{tag}", f"%Y{_TIME}")  # a leap year
    return tuple(parsed[1:6])


def _deprecated(name: str, instead: str) -> None:
    if first_time(f"deprecated {name}"):
        logger.warning("TrainerMon.%s is deprecated; use %s", name, instead)
