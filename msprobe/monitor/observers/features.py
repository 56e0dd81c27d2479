"""Attaches the features of modules (``l2_targets``) where the hooks of a framework can compute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msprobe.core.log import logger
from msprobe.monitor.plan import MonitorPlan, short_names
from msprobe.monitor.sources import ATTENTION, FEATURE_SOURCES, LINEAR, ROUTER_LOGITS, ROUTER_WEIGHT, Source
from msprobe.monitor.watch import FeatureWatch, Remove, TrainingWatch

_SUFFIXES: Final = {LINEAR: "linear", ATTENTION: "attention", ROUTER_WEIGHT: "moe_router", ROUTER_LOGITS: "moe_router"}
"""What follows the name of the module in the rows."""
_MUST_BE_NAMED: Final = (ATTENTION, ROUTER_WEIGHT, ROUTER_LOGITS)
"""Nothing about a module says that it computes attention or is a router; a matrix is seen."""


class FeatureTaker(Protocol):
    """Takes the features that its plan asks for: a session."""

    @property
    def plan(self) -> MonitorPlan: ...

    def wants_feature(self, stage: int, source: Source, name: str) -> bool: ...

    def feature(self, stage: int, source: Source, name: str, values: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class _NamedFeatures:
    """Passes the features of one source on, under the names of the rows (implements ``FeatureReports``)."""

    taker: FeatureTaker
    stage: int
    source: Source
    labels: Mapping[str, str]

    def wants(self, name: str) -> bool:
        return self.taker.wants_feature(self.stage, self.source, self._label(name))

    def take(self, name: str, values: Mapping[str, Any]) -> None:
        self.taker.feature(self.stage, self.source, self._label(name), values)

    def _label(self, name: str) -> str:
        return f"{self.labels.get(name, name)}.{_SUFFIXES[self.source]}"


def attach_features(taker: FeatureTaker, stage: int, watch: TrainingWatch, modules: Mapping[str, Any]) -> list[Remove]:
    """Return what takes the hooks away.

    Args:
        taker: takes the features.
        stage: the number of the chunk.
        watch: the hooks of the framework.
        modules: the modules of the chunk.
    """
    plan = taker.plan
    if plan.features and not isinstance(watch, FeatureWatch):
        logger.warning("monitor: l2_targets: features of modules are not computed for this framework")
        return []
    removes = []
    labels = short_names(modules) if plan.short_names else {}
    for kind, targets in plan.features.items():
        source = FEATURE_SOURCES[kind]
        if not targets and source in _MUST_BE_NAMED:
            logger.warning("monitor: l2_targets.%s is empty: name the modules", kind)
            continue
        for target in sorted(targets - modules.keys()):
            logger.warning("monitor: l2_targets.%s: the model has no module %s", kind, target)
        wanted = {name: one for name, one in modules.items() if not targets or name in targets}
        reports = _NamedFeatures(taker, stage, source, labels)
        remove, found = watch.watch_features(kind, wanted, plan.attention_axes, reports)  # type: ignore[attr-defined]
        removes.append(remove)
        for target in sorted(targets & (wanted.keys() - set(found))):
            logger.warning("monitor: l2_targets.%s: %s has no weight with two axes", kind, target)
    return removes
