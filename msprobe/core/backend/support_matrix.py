"""The support matrix: what each framework can be asked for, by framework, task, level and feature.

Nothing is written down twice: a cell is the answer of the checks that judge a user's configuration before it runs. A
setting that is accepted and ignored with a warning counts as not supported.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.backend.support import SUPPORTS, Support, support_problems
from msprobe.core.config import TASKS, check_config
from msprobe.core.config.models import LevelName

SUPPORTED_TASKS: tuple[str, ...] = tuple(name for name in TASKS if any(name in support.tasks for support in SUPPORTS))
"""The tasks that at least one framework has, in the order of ``TASKS``."""
LEVELS: tuple[str, ...] = ("L0", "L1", "mix", "L2", "debug")
assert set(LEVELS) == set(get_args(LevelName))

_SECTION = "section."
FEATURES: Mapping[str, Mapping[str, Any]] = {
    "md5 checksums": {"section.summary_mode": "md5"},
    "xor checksums": {"section.summary_mode": "xor"},
    "chosen statistics": {"section.summary_mode": ["max", "mean"]},
    "list": {"section.list": ["Functional.linear.0.forward"]},
    "tensor_list": {"section.tensor_list": ["linear"]},
    "data_mode": {"section.data_mode": ["output"]},
    "slice": {"section.slice": [{"end": 2}]},
    "request_id": {"section.request_id": "7"},
    "ring": {"section.ring": {"steps": 3}},
    "sample": {"section.sample": {"every": 10}},
    "bench_path": {"section.bench_path": "golden"},
    "step, rank": {"step": [0], "rank": [0]},
    "async_dump": {"async_dump": True},
    "dump_enable": {"dump_enable": True},
    "disk_budget": {"disk_budget": "10GB"},
    "time_budget": {"time_budget": "10min"},
    "load": {"load": {"path": "golden"}},
    "perturb": {"perturb": 1},
    "precision high": {"precision": "high"},
    "risk_level CORE": {"risk_level": "CORE"},
    "custom_apis": {"custom_apis": {"package": ["function"]}},
    "custom_op_namespaces": {"custom_op_namespaces": ["mine"]},
}
"""Each feature with the smallest configuration that asks for it; ``section`` stands for the section of the task."""
_FOLDER = "/dump"  # at level L2 MindSpore accepts a few characters in absolute paths only


@dataclass(frozen=True, slots=True)
class Cell:
    """A supported combination: ``framework`` can do ``task`` at ``level``, with these ``features``."""

    framework: str
    task: str
    level: str
    features: tuple[str, ...]


def cells(supports: Sequence[Support] = SUPPORTS) -> Iterator[Cell]:
    """Yield the supported combinations in the order of the tables; a missing combination is not supported."""
    for support, task, level in itertools.product(supports, SUPPORTED_TASKS, LEVELS):
        if _accepts(support, task, level, {}):
            features = tuple(name for name, setting in FEATURES.items() if _accepts(support, task, level, setting))
            yield Cell(support.name, task, level, features)


def _accepts(support: Support, task: str, level: str, setting: Mapping[str, Any]) -> bool:
    """Return whether the configuration with this setting is accepted, and nothing in it is ignored."""
    raw = _raw_config(support, task, level, setting)
    report = check_config(raw)
    if report.config is None or report.config.level != level or report.warnings:
        return False
    ignored = (*support.ignored, *support.ignored_at_kernels) if level == "L2" else support.ignored
    if any(key in ignored for key in raw) or support_problems(report.config, support):
        return False
    return support.facts is None or not mode_problems(report.config, support.facts)


def _raw_config(support: Support, task: str, level: str, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest configuration of ``task`` at ``level`` that the framework can accept, with ``setting``."""
    raw: dict[str, Any] = {"dump_path": _FOLDER, "task": task, "level": level}
    section: dict[str, Any] = {"bench_path": "golden"} if TASKS[task].needs_bench_path else {}
    for key, value in setting.items():
        if key.startswith(_SECTION):
            section[key.removeprefix(_SECTION)] = value
        else:
            raw[key] = value
    if level == "L2":  # calls and kernels have different names
        section["list"] = list(support.kernel_list)
    if "load" in raw:
        raw["load"] = {**raw["load"], "modules": [f"{support.module_prefix}.fc.Linear.forward.0"]}
    return {**raw, task: section}
