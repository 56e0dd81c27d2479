"""The configuration of ``TrainerMon``, the first version of the monitor."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, field_validator

from msprobe.core.config.fields import ConfigModel, Names
from msprobe.core.errors import json_text
from msprobe.core.log import logger
from msprobe.monitor.plan import CollectiveChoice, MonitorPlan, StepWindow
from msprobe.monitor.settings.reading import Source as ConfigSource
from msprobe.monitor.settings.reading import read_settings
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
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
from msprobe.monitor.statistics import BY_NAME, FEATURES

LENIENT = frozenset({"start_step", "collect_times", "step_interval", "monitor_mbs_grad"})
"""Settings of which a wrong value is a warning."""
ALWAYS = ("shape", "dtype")
_VALUE = re.compile(r"tensor|tuple\[\d+\](:\d+)?|list\[\d+\](:\d+)?")
_POSITION = re.compile(r":(\d+)$")
_STAGE = re.compile(r"^\d+:(?=.)")
_KINDS = ("input", "output", "input_grad", "output_grad")
_TIME_TAG = re.compile(r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}")
Ints = Annotated[tuple[int, ...], Strict(False)]


class AlertRule(ConfigModel):
    """One rule of the published monitor."""

    rule_name: Literal["AnomalyTurbulence", "AnomalyNan"]
    args: dict[str, Any] = Field(default_factory=dict, description="threshold: a number of at least 0")

    @field_validator("args")
    @classmethod
    def _check_threshold(cls, args: dict[str, Any]) -> dict[str, Any]:
        threshold = args.get("threshold", 0)
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not threshold >= 0:
            raise ValueError(f"threshold: {json_text(threshold)}; it is a number of at least 0")
        return args


class AlertSettings(ConfigModel):
    """When a value is worth an alert."""

    rules: Annotated[tuple[AlertRule, ...], Strict(False)] = Field(default=(), description="Rules as published.")
    dump: bool = Field(default=False, description="Write anomaly.json.")
    policy: Literal["robust", "reference"] | None = Field(
        default=None, description="robust (with rules the default): median and MAD; reference: the rules as published."
    )


class CollectiveSettings(ConfigModel):
    """What is watched of collectives."""

    enable: bool = Field(default=False, description="Watch the arguments of collectives.")
    cc_codeline: Names = Field(default=(), description="Lines such as train.py[23]; empty for all.")
    cc_pre_hook: bool = Field(default=False, description="Watch arguments before the call as well.")
    cc_log_only: bool = Field(default=False, description="Only log which lines call collectives.")


class FirstVersion(ConfigModel):
    """The keys of the configuration of ``TrainerMon``."""

    targets: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Modules to watch, each with the values of it; empty for the whole model."
    )
    dynamic_on: bool = Field(default=False, description="With DYNAMIC_MONITOR=true: begin in the next step.")
    start_step: int = Field(default=0, ge=0, description="The first step that is measured.")
    collect_times: int = Field(default=100_000_000, ge=0, description="How many steps are measured.")
    step_interval: int = Field(default=1, ge=1, description="Measure every n-th step.")
    print_struct: bool = Field(default=False, description="Write module_struct.json after the first step.")
    module_ranks: Ints = Field(default=(), description="Ranks that are watched; empty for all.")
    ur_distribution: bool = Field(default=False, description="Update and ratio of Adam.")
    xy_distribution: bool = Field(default=False, description="Inputs and outputs of modules and their gradients.")
    all_xy: bool = Field(default=False, description="Watch all modules beside the targets.")
    forward_only: bool = Field(default=False, description="No gradients of modules.")
    backward_only: bool = Field(default=False, description="Only gradients of modules.")
    mv_distribution: bool = Field(default=False, description="Moments of the optimizer.")
    wg_distribution: bool = Field(default=False, description="Gradients of parameters before and after reduction.")
    param_distribution: bool = Field(default=False, description="Parameters before and after the step.")
    monitor_mbs_grad: bool = Field(default=False, description="Gradients before reduction after each micro step.")
    mg_direction: bool = Field(default=False, description="Share of a gradient with the sign of the first moment.")
    cc_distribution: CollectiveSettings = Field(default=CollectiveSettings(), description="Collectives.")
    alert: AlertSettings = Field(default=AlertSettings(), description="Alerts.")
    format: str = Field(default="csv", description="csv, tensorboard, api, append or trend.")
    ops: Names = Field(default=("norm",), description="Statistics; shape and dtype are always added.")
    eps: float = Field(default=1e-8, ge=0, description="Magnitudes below it count as zero.")
    ndigits: int = Field(default=6, ge=1, le=20, description="Digits behind the point in csv files.")
    step_count_per_record: int = Field(default=1, ge=1, le=1_000_000, description="Steps in one csv file.")
    append_output: Names = Field(default=(), description="Two time tags of folders to go on in, as Dec03_21-34-40.")
    squash_name: bool = Field(default=False, description="Shorter names of parameters.")
    stack_info: bool = Field(default=False, description="Write the stacks of module calls once.")
    l2_targets: dict[str, Names] = Field(default_factory=dict, description="Modules by the features to compute.")
    recording_l2_features: bool = Field(default=False, description="Compute features of attention, linear and MoE.")
    sa_order: Literal["s,b,h,d", "b,s,h,d"] = Field(default="s,b,h,d", description="Order of axes in attention.")

    @field_validator("targets")
    @classmethod
    def _check_targets(cls, targets: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for module, values in targets.items():
            for kind, form in values.items():
                if kind not in _KINDS or not _VALUE.fullmatch(form):
                    raise ValueError(
                        f"{module}.{kind}: {json_text(form)}; keys are {', '.join(_KINDS)}, values tensor or tuple[2]:0"
                    )
        return targets

    @field_validator("append_output")
    @classmethod
    def _check_tags(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        if len(tags) not in {0, 2} or not all(_TIME_TAG.fullmatch(tag) for tag in tags):
            raise ValueError("must be empty or two time tags such as Dec03_21-34-40")
        return tags

    @field_validator("l2_targets")
    @classmethod
    def _check_features(cls, targets: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        unknown = [kind for kind in targets if kind not in FEATURES]
        if unknown:
            raise ValueError(f"{json_text(unknown[0])}; keys are {', '.join(FEATURES)}")
        return targets

    @property
    def features(self) -> dict[str, frozenset[str]]:
        """Return the modules by the features that are computed of them; empty where that is not switched on."""
        chosen = self.l2_targets if self.recording_l2_features else {}
        return {kind: frozenset(_module(name) for name in names) for kind, names in chosen.items()}

    @property
    def statistics(self) -> tuple[str, ...]:
        """Return the names of the statistics, those that are always there last."""
        known = [name for name in dict.fromkeys(self.ops) if name in BY_NAME and name not in ALWAYS]
        return (*(known or ["norm"]), *ALWAYS)


def read_first_version(source: ConfigSource) -> FirstVersion:
    """Return the settings of ``TrainerMon``.

    Raises:
        ConfigError: a setting is wrong; it is a TypeError or ValueError as well.
    """
    settings = read_settings(FirstVersion, source, LENIENT)
    unknown = [name for name in settings.ops if name not in BY_NAME]
    for name in unknown:
        logger.warning("ops: %s is no statistic and is left out; there are %s", json_text(name), ", ".join(BY_NAME))
    if settings.forward_only and settings.backward_only:
        logger.warning("forward_only and backward_only exclude each other: no values of modules are watched")
    return settings


def plan_of(settings: FirstVersion, micro_steps: int, start: int | None = None) -> MonitorPlan:
    """Return what these settings watch.

    Args:
        settings: the settings.
        micro_steps: how many backward passes make a step.
        start: the first step, in place of ``start_step``.
    """
    names = settings.statistics
    features = settings.features
    featured = {FEATURE_SOURCES[kind]: tuple(one.name for one in FEATURES[kind]) for kind in features}
    collectives = settings.cc_distribution
    return MonitorPlan(
        statistics={**dict.fromkeys(_sources(settings), names), **featured},
        targets={_module(name): frozenset(values) for name, values in settings.targets.items()},
        written_targets=frozenset(settings.targets),
        positions=_positions(settings.targets),
        features=features,
        attention_axes=settings.sa_order,
        short_names=settings.squash_name,
        collectives=CollectiveChoice(
            frozenset(collectives.cc_codeline), collectives.cc_pre_hook, collectives.cc_log_only
        ),
        all_modules=settings.all_xy or not settings.targets,
        window=StepWindow(
            settings.start_step if start is None else start, settings.step_interval, settings.collect_times
        ),
        ranks=frozenset(settings.module_ranks),
        micro_steps=micro_steps,
        eps=settings.eps,
    )


def _module(name: str) -> str:
    """Return a name without the stage that module_struct.json puts before it: ``0:fc1`` is ``fc1``."""
    return _STAGE.sub("", name)


def _positions(targets: dict[str, dict[str, str]]) -> dict[tuple[str, str], int]:
    found = {
        (_module(name), kind): _POSITION.search(form)
        for name, values in targets.items()
        for kind, form in values.items()
    }
    return {key: int(match[1]) for key, match in found.items() if match}


def _sources(settings: FirstVersion) -> list[Source]:
    chosen: list[tuple[bool, Source]] = [
        (settings.xy_distribution and not settings.backward_only, ACTIVATION),
        (settings.xy_distribution and not settings.forward_only, ACTIVATION_GRADIENT),
        (settings.wg_distribution and not settings.monitor_mbs_grad, GRADIENT_UNREDUCED),
        (settings.wg_distribution and settings.monitor_mbs_grad, GRADIENT_MICRO),
        (settings.wg_distribution, GRADIENT_REDUCED),
        (settings.param_distribution, PARAMETER_BEFORE),
        (settings.param_distribution, PARAMETER_AFTER),
        (settings.mv_distribution, FIRST_MOMENT),
        (settings.mv_distribution, SECOND_MOMENT),
        (settings.ur_distribution, UPDATE),
        (settings.ur_distribution, RATIO),
        (settings.mg_direction, DIRECTION),
        (settings.cc_distribution.enable, COMMUNICATION),
    ]
    return [source for wanted, source in chosen if wanted]
