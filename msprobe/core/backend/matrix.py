"""The support matrix: what each framework can be asked for, framework x task x level x feature.

Nothing is written down twice: a cell is the answer of the same checks that judge a user's configuration before it runs.
A setting that would be accepted and ignored (with a warning) counts as not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.backend.support import ALL, PYTORCH, Support, check_support
from msprobe.core.config import check_config
from msprobe.core.config.dump_config import LevelName, TaskName
from msprobe.core.errors import ConfigError

TASKS: tuple[str, ...] = tuple(task for task in get_args(TaskName) if task != "acc_check")
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
    "bench_path": {"section.bench_path": "golden"},
    "step, rank": {"step": [0], "rank": [0]},
    "async_dump": {"async_dump": True},
    "dump_enable": {"dump_enable": True},
    "load": {"load": {"path": "golden", "modules": ["Module.fc.Linear.forward.0"]}},
    "precision high": {"precision": "high"},
    "risk_level CORE": {"risk_level": "CORE"},
    "custom_apis": {"custom_apis": {"package": ["function"]}},
    "custom_op_namespaces": {"custom_op_namespaces": ["mine"]},
}
"""Each with the least configuration that asks for it; ``section`` is the one of the task."""
_NEEDED: Mapping[str, Mapping[str, Any]] = {"diff_check": {"section.bench_path": "golden"}}
_CALL, _KERNEL = ["Functional.linear.0.forward"], ["name-regex(Default/.+)"]
_CELLS = ["Cell.fc.Dense.forward.0"]
_FOLDER = "/dump"  # MindSpore is particular about absolute paths


@dataclass(frozen=True, slots=True)
class Cell:
    """Whether ``framework`` can do ``task`` at ``level``, and with which features."""

    framework: str
    task: str
    level: str
    features: tuple[str, ...]


def cells(supports: Sequence[Support] = ALL) -> Iterator[Cell]:
    """The combinations that are there, in the order of the tables; one that is missing is not supported."""
    for support, task, level in itertools.product(supports, TASKS, LEVELS):
        if _accepted(support, task, level, {}):
            features = tuple(name for name, asked in FEATURES.items() if _accepted(support, task, level, asked))
            yield Cell(support.name, task, level, features)


def _accepted(support: Support, task: str, level: str, asked: Mapping[str, Any]) -> bool:
    settings = {"section.list": [], **_NEEDED.get(task, {}), **asked}
    if level == "L2" and (support is PYTORCH or settings["section.list"]):  # there it takes a list of one call
        settings["section.list"] = _CALL if support.facts is None else _KERNEL
    if "load" in settings and support.framework == "mindspore":
        settings["load"] = {**settings["load"], "modules": _CELLS}
    section = {key.removeprefix(_SECTION): value for key, value in settings.items() if key.startswith(_SECTION)}
    common = {key: value for key, value in settings.items() if not key.startswith(_SECTION)}
    report = check_config({"dump_path": _FOLDER, "task": task, "level": level, **common, task: section})
    if report.config is None or report.config.level != level or report.warnings:
        return False
    ignored = (*support.ignored, *support.idle_at_kernels) if level == "L2" else support.ignored
    if any(key in ignored for key in common):
        return False
    try:
        check_support(report.config, support)
    except ConfigError:
        return False
    return support.facts is None or not mode_problems(report.config, support.facts)
