"""What does not fit MindSpore's mode is said, each with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.core.backend.mindspore_modes import RuntimeFacts, mode_problems
from msprobe.core.config import load_config


def problems(graph: str | None, task: str = "statistics", level: str = "L2", **section: Any) -> list[str]:
    facts = RuntimeFacts(graph is not None, graph or "", "CPU", (2, 10, 0))
    config = load_config({"task": task, "level": level, "dump_path": "/d", task: section})
    return [f"{problem.path}: {problem.expected}" for problem in mode_problems(config, facts)]


@pytest.mark.parametrize(
    ("graph", "asked", "path"),
    [
        ("O0", {"level": "L1"}, "level"),
        ("O0", {"level": "mix"}, "level"),
        ("O0", {"task": "structure"}, "task"),
        ("O0", {"task": "overflow_check"}, "level"),
        ("O2", {"task": "overflow_check", "level": "L1"}, "level"),
        (None, {"task": "overflow_check"}, "level"),
        ("O2", {"task": "exception_dump"}, "task"),
        ("O0", {"task": "diff_check", "level": "L0"}, "task"),
        ("O0", {"level": "L0", "request_id": "7"}, "statistics.request_id"),
        ("O0", {"level": "L0", "task": "tensor", "bench_path": "golden"}, "tensor.bench_path"),
        ("O0", {"level": "L0", "summary_mode": "xor"}, "statistics.summary_mode"),
        ("O0", {"level": "L0", "data_mode": ["output"]}, "statistics.data_mode"),
        ("O2", {"level": "L0", "data_mode": ["forward", "input"]}, "statistics.data_mode"),
        ("O2", {"level": "L0", "slice": [{"end": 2}]}, "statistics.slice"),
        ("O0", {"level": "L0", "data_mode": ["forward", "backward"]}, "statistics.data_mode"),
        ("O0", {"level": "L0", "data_mode": ["input", "output"]}, "statistics.data_mode"),
        ("O0", {"data_mode": ["forward"]}, "statistics.data_mode"),
        ("O2", {"data_mode": ["input", "output"]}, "statistics.data_mode"),
        ("O0", {"data_mode": ["forward", "input"]}, "statistics.data_mode"),
        ("O0", {"task": "tensor", "file_format": "bin"}, "tensor.file_format"),
        ("O2", {"summary_mode": ["max", "nan count"]}, "statistics.summary_mode"),
        ("O2", {"device": "device"}, "statistics.device"),
        ("O2", {"list": ["MatMul"]}, "statistics.list[0]"),
        ("O0", {"device": "device", "summary_mode": ["hash"]}, "statistics.summary_mode"),
        ("O0", {"scope": ["Functional.a.0.forward", "Functional.b.0.forward"]}, "statistics.scope"),
    ],
    ids=str,
)
def test_one_clear_problem(graph: str | None, asked: dict[str, Any], path: str) -> None:
    (problem,) = problems(graph, **asked)
    assert problem.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("graph", "asked"),
    [
        ("O0", {"summary_mode": ["max", "hash"], "list": ["MatMul"], "data_mode": ["input"]}),
        ("O0", {"device": "device"}),
        ("O2", {"task": "tensor", "file_format": "bin", "list": ["name-regex(Default/.+)", "Default/a/Add-op1"]}),
        ("O2", {"task": "overflow_check"}),
        ("", {"level": "L0"}),
        ("O0", {"level": "L0", "data_mode": ["forward"]}),
        (None, {"level": "mix"}),
        (None, {"level": "mix", "summary_mode": ["max"], "request_id": "7"}),
        (None, {"level": "L1", "task": "nan_check"}),
        (None, {"level": "L2"}),
    ],
    ids=str,
)
def test_what_fits_is_accepted(graph: str | None, asked: dict[str, Any]) -> None:
    assert problems(graph, **asked) == []


def test_a_path_that_the_runtime_refuses_is_told_before_training() -> None:
    facts = RuntimeFacts(True, "O0", "CPU", (2, 10, 0))
    (problem,) = mode_problems(load_config({"level": "L2", "dump_path": "/d/v1.2"}), facts)
    assert problem.path == "dump_path" and "letters, digits" in problem.expected
