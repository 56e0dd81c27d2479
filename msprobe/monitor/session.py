"""``MonitorSession``: watches one training, from its hooks to the rows of each step.

A step ends when the optimizer has made one. All tensors of a step are measured where they lie, and their numbers are
fetched at its end at once. An error of the monitor costs rows, never the training.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.safe_files import disk_remedy
from msprobe.monitor.alerts.alert import Alert, AlertSink
from msprobe.monitor.observers.features import attach_features
from msprobe.monitor.observers.observer import CallObserver
from msprobe.monitor.plan import MonitorPlan, short_names
from msprobe.monitor.rows import Place, Row, RowSink, StepRecords
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    BY_HAND,
    COMMUNICATION,
    DIRECTION,
    FEATURE_SOURCES,
    FIRST_MOMENT,
    GRADIENT_MICRO,
    GRADIENT_REDUCED,
    GRADIENT_UNREDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    RATIO,
    SECOND_MOMENT,
    UPDATE,
    Source,
)
from msprobe.monitor.statistics import BY_NAME, Features, Measured, needs_of
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import Remove, TrainingWatch

MOST_ROWS = 500_000
"""How many tensors a step may have. They take about 0.8 kB each, and stay in memory until the step ends."""
_AS_IT_IS = frozenset({"id"})
OnRows = Callable[[int, Sequence[Row]], Sequence[Alert]]


class MonitorSession:
    """Watches a training by a plan.

    Args:
        plan: what is watched.
        watch: the hooks of the framework.
        sinks: where the rows go.
        first_step: the number of the next step.
        on_rows: returns the alerts of a step, when its rows are written.
        observers: look at the calls of modules in the first step that is measured.
    """

    def __init__(
        self,
        plan: MonitorPlan,
        watch: TrainingWatch,
        sinks: Sequence[RowSink],
        first_step: int = 0,
        on_rows: OnRows | None = None,
        *,
        observers: Sequence[CallObserver] = (),
    ) -> None:
        self.errors = ErrorLog(None)
        self.plan = plan
        self.step = first_step
        self._watch = watch
        self._sinks = list(sinks)
        self._on_rows = on_rows
        self._meter = watch.meter(plan.eps, plan.rounded)
        self._needs = {source: needs_of(names) for source, names in plan.statistics.items()}
        self._records = StepRecords(plan.statistics)
        self._parameters: dict[Place, Any] = {}
        self._lasting: dict[frozenset[str], list[tuple[int, Any]]] = {}
        self._hooks: list[Remove] = []
        self._stages = 0
        self._failed: list[RowSink] = []
        self._alerts_failed = False
        self._observers = list(observers)
        self._told_lines: set[str] = set()
        self._full = self._told_full = False
        self._any_optimizer = False
        self._leader: int | None = None
        self._active = not plan.ranks or watch.rank() in plan.ranks
        self._measures = self._active and plan.window.holds(first_step)

    def attach(self, models: Sequence[Any], optimizer: Any = None, by_caller: bool = False) -> None:
        """Watch a model.

        Args:
            models: its chunks.
            optimizer: its steps end a step; None stands for the first one that holds parameters of the model.
            by_caller: whether the caller passes the steps of the optimizer on (``before_step``, ``after_step``).
        """
        if not self._active:
            return
        try:
            self._attach(models, optimizer, by_caller)
        except Exception:
            self._unhook()  # all hooks or none
            self._hooks.clear()
            raise

    def _attach(self, models: Sequence[Any], optimizer: Any, by_caller: bool) -> None:
        plan = self.plan
        self._any_optimizer = optimizer is None
        modules: set[str] = set()
        for model in models:
            modules |= self.add(model)
        choice = plan.collectives
        if plan.watches(COMMUNICATION) and (not choice.ranks or self._watch.rank() in choice.ranks):
            self._hooks.append(self._watch.watch_collectives(self))
        if not by_caller:
            self._hooks.append(self._watch.watch_optimizer(optimizer, self))
        self._check_targets(modules)

    def add(self, model: Any) -> set[str]:
        """Watch one more chunk, and return the names of its modules."""
        if not self._active:
            return set()
        stage, self._stages = self._stages, self._stages + 1
        modules = self._attach_modules(stage, model)
        named = self._labelled({
            name: one for name, one in self._watch.parameters(model) if self.plan.holds_parameter(name)
        })
        self._parameters.update({Place(stage, name): one for name, one in named.items()})
        if self.plan.watches(GRADIENT_UNREDUCED, GRADIENT_MICRO):
            report = functools.partial(self.accumulated, stage)
            self._hooks.append(self._watch.watch_gradients(named, report))
        return modules

    def _check_targets(self, modules: Collection[str]) -> None:
        target = self.plan.missing_target(modules)
        if target is not None:
            close = get_close_matches(target, modules, 1)
            hint = f"did you mean {close[0]!r}?" if close else "named_modules() of the model has the names"
            logger.warning("monitor: no module is called %r, nor as another target; %s", target, hint)

    def _attach_modules(self, stage: int, model: Any) -> set[str]:
        """Watch the modules of a chunk, and return the names of all that it has."""
        plan = self.plan
        named = dict(self._watch.modules(model))
        if plan.watches(ACTIVATION, ACTIVATION_GRADIENT) or self._observers:
            wanted = {name: one for name, one in named.items() if plan.module_values(name) is not None}
            backward = plan.watches(ACTIVATION_GRADIENT) or bool(self._observers)
            labels = short_names(named) if plan.short_names else {}
            reports = _StageReports(self, stage, labels)
            self._hooks.append(self._watch.watch_modules(wanted, reports, backward))
        self._hooks += attach_features(self, stage, self._watch, named)
        return set(named)

    def _labelled(self, named: Mapping[str, Any]) -> dict[str, Any]:
        labels = short_names(named) if self.plan.short_names else {}
        return {labels.get(name, name): one for name, one in named.items()}

    def detach(self) -> None:
        """Take all hooks away, write what the last step has measured, and close the files."""
        self._unhook()
        self._hooks.clear()
        if len(self._records):
            self.end_step()
        for sink in self._sinks:
            self._close(sink)

    def _unhook(self) -> None:
        for remove in reversed(self._hooks):
            remove()

    # ---------------------------------------------------------------- what the hooks report

    @unrecorded
    def forward(self, stage: int, names: tuple[str, str], kind: str, values: Sequence[Any]) -> None:
        """Take the inputs or outputs of a module; ``names`` are its name in the model, and the one in the rows."""
        if not self.measures:
            return
        module, label = names
        for observer in self._observers:
            observer.forward(stage, module, kind, values)
        chosen = self.plan.module_values(module)
        if not self.plan.watches(ACTIVATION) or chosen is None or (chosen and kind not in chosen):
            return
        micro = self._records.count(ACTIVATION, stage, f"{module}.{kind}")
        position = self.plan.positions.get((module, kind))
        self._add_values(ACTIVATION, Place(stage, f"{label}.{kind}", micro), values, position)

    @unrecorded
    def backward(self, stage: int, names: tuple[str, str], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Take the gradients of the inputs and outputs of a module."""
        if not self.measures:
            return
        module, label = names
        for observer in self._observers:
            observer.backward(stage, module, inputs, outputs)
        chosen = self.plan.module_values(module)
        if not self.plan.watches(ACTIVATION_GRADIENT) or chosen is None:
            return
        micro = self._records.count(ACTIVATION_GRADIENT, stage, module)
        for kind, values in (("input", inputs), ("output", outputs)):
            if not chosen or f"{kind}_grad" in chosen:
                position = self.plan.positions.get((module, f"{kind}_grad"))
                self._add_values(ACTIVATION_GRADIENT, Place(stage, f"{label}.{kind}", micro), values, position)

    @property
    def measures(self) -> bool:
        """Whether the present step is measured."""
        return self._measures and not self._full

    def wants_feature(self, stage: int, source: Source, name: str) -> bool:
        """Return whether the features of this call are kept: those of a weight count once a step."""
        return self.measures and (source.per_micro_step or not self._records.has(source, stage, name))

    @unrecorded
    def feature(self, stage: int, source: Source, name: str, values: Mapping[str, Any]) -> None:
        """Take the features of a module."""
        if not self.wants_feature(stage, source, name):
            return
        micro = self._records.count(source, stage, name)
        measured = Features({key: self._meter.measure(value, _AS_IT_IS) for key, value in values.items()})
        self._keep(source, Place(stage, name, micro if source.per_micro_step else None), measured)

    @unrecorded
    def check_by_hand(self, name: str, tensor: Any, statistics: frozenset[str]) -> None:
        """Measure a tensor that the program hands in; statistics that are not asked for stay empty."""
        if self.measures:
            node = self._meter.measure(tensor, needs_of(tuple(statistics)))
            place = Place(0, name, self._records.count(BY_HAND, 0, name))
            self._keep(BY_HAND, place, node, tuple(BY_NAME), statistics)

    @unrecorded
    def accumulated(self, stage: int, name: str, gradient: Any) -> None:
        """Take a gradient that has been added to a parameter of this rank."""
        if not self.measures:
            return
        micro = self._records.count(GRADIENT_UNREDUCED, stage, name)
        if GRADIENT_MICRO in self._needs:
            self._add(GRADIENT_MICRO, Place(stage, name, micro), gradient)
        elif micro == self.plan.micro_steps - 1:
            self._add(GRADIENT_UNREDUCED, Place(stage, name), gradient)

    @unrecorded
    def before_step(self, optimizer: Any) -> None:
        """Measure gradients, parameters and moments as the optimizer gets them."""
        if not self.measures:
            return
        self._lasting.clear()
        for place, parameter in self._parameters_of(optimizer):
            if GRADIENT_REDUCED in self._needs or DIRECTION in self._needs:
                self._add_gradient(place, optimizer, parameter)
            if PARAMETER_BEFORE in self._needs:
                self._add_lasting(PARAMETER_BEFORE, place, parameter)
            if not self.plan.moments_after:
                self._add_moments(place, optimizer, parameter)
        self._measure_lasting()

    @unrecorded
    def after_step(self, optimizer: Any) -> None:
        """Measure the parameters that the optimizer has made, and end the step."""
        self._lasting.clear()  # what is left was to be measured before the optimizer changed it
        for place, parameter in self._parameters_of(optimizer) if self.measures else ():
            if PARAMETER_AFTER in self._needs:
                self._add_lasting(PARAMETER_AFTER, place, parameter)
            if self.plan.moments_after:
                self._add_moments(place, optimizer, parameter)
        self._measure_lasting()
        if not self.plan.ends_by_hand and self._leads(optimizer):
            self.end_step()

    def _leads(self, optimizer: Any) -> bool:
        """Return whether the step of an optimizer ends a step: with several that of the first that holds parameters."""
        if not self._any_optimizer:
            return True
        if self._leader is None and self._parameters_of(optimizer):
            self._leader = id(optimizer)
        return self._leader == id(optimizer)

    @unrecorded
    def collective(self, name: str, line: str, tensors: Sequence[Any], before: bool) -> None:
        """Take the arguments of a collective."""
        choice = self.plan.collectives
        if not self.measures or (choice.lines and line not in choice.lines):
            return
        if choice.only_lines:
            if line not in self._told_lines:
                self._told_lines.add(line)
                logger.info("monitor: cc_log_only: %s is called at %s", name, line)
        elif choice.before or not before:
            whole = f"{name}@{line}.{'pre' if before else 'post'}"
            self._add_values(COMMUNICATION, Place(0, whole, self._records.count(COMMUNICATION, 0, whole)), tensors)

    # ---------------------------------------------------------------- the end of a step

    @unrecorded
    def end_step(self) -> None:
        """Write the rows of the step, and begin the next one."""
        step, self.step = self.step, self.step + 1
        try:
            if self._measures:
                self._meter.settle()
                self._finish_observers()
                self._write(step, list(self._records.rows(step)))
        finally:
            self._records.clear()
            self._full = False
            self._measures = self._active and self.plan.window.holds(self.step)
            if self._hooks and self.plan.window.ended(self.step):
                self._unhook()  # the hook that runs now can go with ``detach`` only

    def present_rows(self) -> list[Row]:
        """Return the rows that the running step has so far."""
        self._meter.settle()
        return list(self._records.rows(self.step))

    def change_statistics(self, names: tuple[str, ...], sinks: Sequence[RowSink]) -> None:
        """Measure other statistics from the next tensor on, and write them into other files."""
        fixed = FEATURE_SOURCES.values()
        changed = {source: old if source in fixed else names for source, old in self.plan.statistics.items()}
        self.plan = dataclasses.replace(self.plan, statistics=changed)
        self._needs = {source: needs_of(found) for source, found in changed.items()}
        self._records.change_statistics(changed)
        for sink in self._sinks:
            if sink not in sinks:
                self._close(sink)
        self._sinks = list(sinks)

    def _finish_observers(self) -> None:
        observers, self._observers = self._observers, []
        for observer in observers:
            try:
                observer.finish()
            except OSError as error:
                let_through(error)
                logger.warning("monitor: %s. %s", error_text(error), disk_remedy(error, "output folder"))

    def _write(self, step: int, rows: list[Row]) -> None:
        for sink in self._sinks:
            self._write_into(sink, step, rows)
        if self._on_rows is not None:
            self._alert(self._on_rows, step, rows)

    @unrecorded
    def _alert(self, on_rows: OnRows, step: int, rows: list[Row]) -> None:
        """Show the rows to the alerts; what goes wrong there costs no row."""
        try:
            found = on_rows(step, rows)
            for sink in self._sinks if found else ():
                if isinstance(sink, AlertSink):
                    sink.mark(found)
        except OSError as error:
            let_through(error)
            if not self._alerts_failed:
                self._alerts_failed = True
                where = f"monitor: the alerts of step {step}, and perhaps later ones, are not written"
                logger.warning("%s: %s. %s", where, error_text(error), disk_remedy(error, "output folder"))

    @unrecorded
    def _close(self, sink: RowSink) -> None:
        try:
            sink.close()
        except OSError as error:
            let_through(error)
            where = "monitor: the end of the last file is not written"
            logger.warning("%s: %s. %s", where, error_text(error), disk_remedy(error, "output folder"))

    @unrecorded
    def _write_into(self, sink: RowSink, step: int, rows: list[Row]) -> None:
        try:
            sink.write(step, rows)
            if sink in self._failed:
                self._failed.remove(sink)
                logger.warning("monitor: rows are written again, from step %d on", step)
        except OSError as error:
            let_through(error)
            if sink not in self._failed:  # one line, not one for each step
                self._failed.append(sink)
                where = f"monitor: the rows of step {step}, and perhaps later ones, are not written"
                logger.warning("%s: %s. %s", where, error_text(error), disk_remedy(error, "output folder"))

    # ---------------------------------------------------------------- measuring

    def _parameters_of(self, optimizer: Any) -> list[tuple[Place, Any]]:
        """Return the parameters that an optimizer holds, in the order of the model; all where it does not say so."""
        held = self._watch.held_by(optimizer)
        return [(place, one) for place, one in self._parameters.items() if held is None or id(one) in held]

    def _add(self, source: Source, place: Place, tensor: Any) -> None:
        measured = None if tensor is None else self._meter.measure(tensor, self._needs[source])
        self._keep(source, place, measured)

    def _keep(self, source: Source, place: Place, measured: Measured | None, *more: Any) -> int:
        """Add a tensor to the step and return its number; the step takes ``MOST_ROWS`` of them, or few more."""
        number = self._records.add(source, place, measured, *more)
        if number + 1 >= MOST_ROWS and not self._full:
            self._full = True
            if not self._told_full:
                self._told_full = True
                ends = (
                    "call step() after each step" if self.plan.ends_by_hand else "a step of the optimizer ends a step"
                )
                logger.warning(
                    "monitor: step %d has %d values and has not ended: those that follow in it are not measured, so "
                    "that memory is bounded. The values so far are written when it ends; %s.",
                    self.step,
                    number + 1,
                    ends,
                )
        return number

    def _add_lasting(self, source: Source, place: Place, tensor: Any) -> None:
        """Add a tensor that stays as it is until ``_measure_lasting``, which measures all of them together."""
        self._lasting.setdefault(self._needs[source], []).append((self._keep(source, place, None), tensor))

    def _measure_lasting(self) -> None:
        lasting, self._lasting = self._lasting, {}
        for needs, entries in lasting.items():
            nodes = self._meter.measure_all([tensor for _, tensor in entries], needs)
            for (number, _), node in zip(entries, nodes, strict=True):
                self._records.complete(number, node)

    def _add_values(self, source: Source, place: Place, values: Sequence[Any], chosen: int | None = None) -> None:
        for position, value in enumerate(values):
            if chosen is None or position == chosen:
                self._add(source, place._replace(position=position, alone=len(values) == 1), value)

    def _add_gradient(self, place: Place, optimizer: Any, parameter: Any) -> None:
        gradient = self._watch.gradient(parameter)
        if gradient is None:
            return
        if GRADIENT_REDUCED in self._needs:
            self._add_lasting(GRADIENT_REDUCED, place, gradient)
        if DIRECTION in self._needs:
            moment = self._watch.moments(optimizer, parameter).get(FIRST_MOMENT.name)
            self._add(DIRECTION, place, self._watch.agreement(gradient, moment))

    def _add_moments(self, place: Place, optimizer: Any, parameter: Any) -> None:
        if FIRST_MOMENT in self._needs or SECOND_MOMENT in self._needs:
            moments = self._watch.moments(optimizer, parameter)
            for source in (FIRST_MOMENT, SECOND_MOMENT):
                if source in self._needs and source.name in moments:
                    self._add_lasting(source, place, moments[source.name])
        if UPDATE in self._needs or RATIO in self._needs:
            computed = self._watch.adam_update(optimizer, parameter)
            for source, value in zip((UPDATE, RATIO), computed or (), strict=False):
                if source in self._needs:
                    self._add(source, place, value)


class _StageReports:
    """Passes what the modules of one chunk report on to the session (implements ``ModuleReports``)."""

    def __init__(self, session: MonitorSession, stage: int, labels: Mapping[str, str]) -> None:
        self._session = session
        self._stage = stage
        self._labels = labels

    @property
    def measures(self) -> bool:
        return self._session.measures

    def forward(self, module: str, kind: str, values: Sequence[Any]) -> None:
        self._session.forward(self._stage, (module, self._labels.get(module, module)), kind, values)

    def backward(self, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._session.backward(self._stage, (module, self._labels.get(module, module)), inputs, outputs)
