"""The configuration of ``TrainerMonitorV2``: one section for each monitor, with statistics of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict, field_validator, model_validator

from msprobe.core.config.fields import ConfigModel, Names, PathText
from msprobe.core.errors import json_text
from msprobe.core.log import logger
from msprobe.monitor.plan import CollectiveChoice, MonitorPlan, StepWindow
from msprobe.monitor.settings.reading import Source as ConfigSource
from msprobe.monitor.settings.reading import read_settings
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    COMMUNICATION,
    FIRST_MOMENT,
    GRADIENT_MICRO,
    GRADIENT_REDUCED,
    GRADIENT_UNREDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    SECOND_MOMENT,
    Source,
)
from msprobe.monitor.statistics import BY_NAME

DEFAULT_STATISTICS = ("min", "max", "mean", "norm", "nans")
LENIENT = frozenset({"rank"})
"""Settings of which a wrong value is a warning."""
_ALWAYS_COUNTED = 100_000_000


class MonitorSection(ConfigModel):
    """The keys that the sections of all monitors share."""

    enabled: bool = Field(default=False, description="Whether this is watched.")
    ops: Names = Field(default=DEFAULT_STATISTICS, description="Statistics.")
    eps: float = Field(default=1e-8, ge=0, description="Magnitudes below it count as zero.")

    @property
    def statistics(self) -> tuple[str, ...]:
        """Return the names of the statistics."""
        return tuple(name for name in dict.fromkeys(self.ops) if name in BY_NAME) or DEFAULT_STATISTICS


class ModuleSection(MonitorSection):
    """Inputs and outputs of modules, and their gradients."""

    enabled: bool = Field(default=True, description="Whether this is watched.")
    targets: Names = Field(default=(), description="Parts of names of modules; empty for all of them.")


class GradientSection(MonitorSection):
    """Gradients of parameters."""

    monitor_mbs_grad: bool = Field(default=False, description="Gradients before reduction after each micro step.")
    micro_batch_number: int | None = Field(default=None, ge=1, description="How many backward passes make a step.")
    grad_acc_steps: int | None = Field(default=None, ge=1, description="Another name of micro_batch_number.")


class OptimizerSection(MonitorSection):
    """Moments of the optimizer."""

    mv_distribution: bool = Field(default=True, description="Watch both moments.")


class ParameterSection(MonitorSection):
    """Parameters before and after the step."""

    param_distribution: bool = Field(default=True, description="Watch parameters.")


class CollectiveSection(MonitorSection):
    """Arguments of collectives."""

    cc_codeline: Names = Field(default=(), description="Lines such as train.py[23]; empty for all.")
    cc_log_only: bool = Field(default=False, description="Only log which lines call collectives.")
    cc_pre_hook: bool = Field(default=False, description="Watch arguments before the call as well.")
    module_ranks: Annotated[tuple[int, ...], Strict(False)] = Field(default=(), description="Ranks; empty for all.")
    cc_distribution: dict[str, Any] = Field(default_factory=dict, description="The same keys, nested.")

    @model_validator(mode="before")
    @classmethod
    def _with_nested(cls, values: Any) -> Any:
        """Take the keys of the nested form; those beside it come first, and ``enable`` is ``enabled``."""
        nested = values.get("cc_distribution") if isinstance(values, dict) else None
        if not isinstance(nested, dict):
            return values
        renamed = {"enabled" if key == "enable" else key: value for key, value in nested.items()}
        return {**renamed, **values}


class Monitors(ConfigModel):
    """The sections of all monitors; one that is not there is not watched."""

    module: ModuleSection | None = Field(default=None, description="Modules.")
    weight_grad: GradientSection | None = Field(default=None, description="Gradients of parameters.")
    optimizer: OptimizerSection | None = Field(default=None, description="Moments.")
    param: ParameterSection | None = Field(default=None, description="Parameters.")
    cc: CollectiveSection | None = Field(default=None, description="Collectives.")


class SecondVersion(ConfigModel):
    """The keys of the configuration of ``TrainerMonitorV2``."""

    framework: Literal["pytorch", "pt", "torch", "mindspore", "ms"] = Field(default="pytorch", description="Framework.")
    output_dir: PathText = Field(
        default="./", min_length=1, description="Folder for the files; made when it is missing."
    )
    format: Literal["csv", "tensorboard", "append", "trend"] = Field(default="csv", description="Kind of the files.")
    async_write: bool = Field(default=False, description="Reserved.")
    rank: Annotated[tuple[int, ...], Strict(False)] | int = Field(default=(), description="Ranks; empty for all.")
    start_step: int = Field(default=0, ge=0, description="The first step that is measured.")
    stop_step: int | None = Field(default=None, ge=0, description="The first step that is not measured any more.")
    step_interval: int = Field(default=1, ge=1, description="Measure every n-th step.")
    step_count_per_record: int = Field(default=1, ge=1, le=1_000_000, description="Steps in one csv file.")
    collect_times: int = Field(default=_ALWAYS_COUNTED, ge=1, description="How many steps are measured.")
    patch_optimizer_step: bool | None = Field(
        default=None, description="Whether steps of the optimizer end a step; with an optimizer they do."
    )
    monitors: Monitors = Field(default=Monitors(), description="What is watched.")

    @field_validator("rank")
    @classmethod
    def _as_list(cls, rank: Any) -> Any:
        return (rank,) if isinstance(rank, int) else rank


def read_second_version(source: ConfigSource) -> SecondVersion:
    """Return the settings of ``TrainerMonitorV2``.

    Raises:
        ConfigError: a setting is wrong; it is a TypeError or ValueError as well.
    """
    settings = read_settings(SecondVersion, source, LENIENT)
    for name in Monitors.model_fields:
        section = getattr(settings.monitors, name)
        for statistic in () if section is None else section.ops:
            if statistic not in BY_NAME:
                logger.warning("%s.ops: %s is no statistic and is left out", name, json_text(statistic))
    return settings


def plan_of(settings: SecondVersion, ends_by_hand: bool) -> MonitorPlan:
    """Return what these settings watch.

    Args:
        settings: the settings.
        ends_by_hand: whether the program ends steps.
    """
    monitors = settings.monitors
    gradients = monitors.weight_grad
    passes = None if gradients is None else gradients.micro_batch_number or gradients.grad_acc_steps
    module, cc = monitors.module, monitors.cc
    return MonitorPlan(
        statistics=_statistics(monitors),
        targets={} if module is None else dict.fromkeys(module.targets, frozenset()),
        match_parts=True,
        collectives=CollectiveChoice()
        if cc is None
        else CollectiveChoice(frozenset(cc.cc_codeline), cc.cc_pre_hook, cc.cc_log_only, frozenset(cc.module_ranks)),
        window=StepWindow(settings.start_step, settings.step_interval, settings.collect_times, settings.stop_step),
        ranks=frozenset(settings.rank if isinstance(settings.rank, tuple) else (settings.rank,)),
        micro_steps=passes or 1,
        eps=_eps_of(monitors),
        rounded=True,
        moments_after=True,
        ends_by_hand=ends_by_hand,
    )


def _eps_of(monitors: Monitors) -> float:
    """Return the magnitude below which elements count as zero: one for all sections, the smallest that is given."""
    given = sorted({section.eps for section in _sections(monitors) if "eps" in section.model_fields_set})
    if len(given) > 1:
        logger.warning("monitor: sections have different eps; %g is used for all", given[0])
    return given[0] if given else MonitorSection().eps


def _sections(monitors: Monitors) -> list[MonitorSection]:
    sections = (getattr(monitors, name) for name in Monitors.model_fields)
    return [section for section in sections if section is not None and section.enabled]


def _statistics(monitors: Monitors) -> dict[Source, tuple[str, ...]]:
    module, gradients, optimizer = monitors.module, monitors.weight_grad, monitors.optimizer
    result: dict[Source, tuple[str, ...]] = {}
    if module is not None and module.enabled:
        result |= dict.fromkeys((ACTIVATION, ACTIVATION_GRADIENT), module.statistics)
    if gradients is not None and gradients.enabled:
        unreduced = GRADIENT_MICRO if gradients.monitor_mbs_grad else GRADIENT_UNREDUCED
        result |= dict.fromkeys((unreduced, GRADIENT_REDUCED), gradients.statistics)
    if optimizer is not None and optimizer.enabled and optimizer.mv_distribution:
        result |= dict.fromkeys((FIRST_MOMENT, SECOND_MOMENT), optimizer.statistics)
    param, cc = monitors.param, monitors.cc
    if param is not None and param.enabled and param.param_distribution:
        result |= dict.fromkeys((PARAMETER_BEFORE, PARAMETER_AFTER), param.statistics)
    if cc is not None and cc.enabled:
        result[COMMUNICATION] = cc.statistics
    return result
