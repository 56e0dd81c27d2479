"""What a framework does not have is found before a training, from the one table of support."""

import itertools
from typing import Any

import pytest

from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.backend.support import (
    FRAMEWORKS,
    MSADAPTER,
    PYTORCH,
    SUPPORTS,
    check_support,
    framework_problems,
    supports_of,
)
from msprobe.core.config import TASKS, check_config, load_config
from msprobe.core.errors import ConfigError

LEVELS = ("L0", "L1", "mix", "L2", "debug")
LOAD = {"path": "golden", "modules": ["Module.a.A.forward.0"]}
LOAD_OF_CELLS = {"path": "golden", "modules": ["Cell.a.A.forward.0"]}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("task", ["statistics", "tensor", "structure", "overflow_check", "diff_check", "nan_check"])
def test_every_framework_has_the_main_tasks(framework: str, task: str) -> None:
    section = {"bench_path": "golden"} if TASKS[task].needs_bench_path else {}
    assert framework_problems(load_config({"dump_path": "x", "task": task, task: section}), framework) == []


@pytest.mark.parametrize(
    ("framework", "raw", "path"),
    [
        ("pytorch", {"task": "exception_dump"}, "task"),
        ("msadapter", {"task": "exception_dump", "level": "L2"}, "task"),
        ("mindspore", {"task": "overflow_check", "level": "debug"}, "level"),
        ("msadapter", {"task": "tensor", "level": "L2"}, "level"),
        ("pytorch", {"task": "diff_check"}, "diff_check.bench_path"),
        ("pytorch", {"statistics": {"summary_mode": ["max", "hash"]}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L0", "statistics": {"summary_mode": ["nan count"]}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L2", "statistics": {"summary_mode": "xor"}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L2", "dump_enable": False}, "dump_enable"),
        ("mindspore", {"level": "L2", "statistics": {"request_id": "7"}}, "statistics.request_id"),
        ("mindspore", {"level": "L2", "custom_apis": {"a.b": ["c"]}}, "custom_apis"),
        ("mindspore", {"level": "L2", "task": "tensor", "tensor": {"bench_path": "golden"}}, "tensor.bench_path"),
        ("mindspore", {"load": LOAD}, "load.modules[0]"),
        ("mindspore", {"custom_op_namespaces": ["mine"]}, "custom_op_namespaces"),
        ("pytorch", {"load": LOAD_OF_CELLS}, "load.modules[0]"),
        ("msadapter", {"load": LOAD_OF_CELLS}, "load.modules[0]"),
        ("pytorch", {"task": "tensor", "level": "L2"}, "tensor.list"),
        ("pytorch", {"task": "tensor", "level": "L2", "tensor": {"list": ["linear"]}}, "tensor.list"),
        ("pytorch", {"task": "tensor", "level": "L2", "tensor": {"list": ["Module.a.A.forward.0"]}}, "tensor.list"),
        ("pytorch", {"task": "tensor", "level": "L2", "tensor": {"list": ["Torch.mm.0.forward"] * 2}}, "tensor.list"),
        ("pytorch", {"level": "L2", "statistics": {"list": ["Torch.mm.0.forward"]}}, "task"),
    ],
)
def test_what_the_framework_lacks(framework: str, raw: dict[str, Any], path: str) -> None:
    report = check_config({"dump_path": "x", **raw})
    problems = list(report.problems) or framework_problems(load_config({"dump_path": "x", **raw}), framework)
    assert [problem.path for problem in problems] == [path]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("summary_mode", ["md5", "xor", ["max", "min", "mean", "l2norm"]], ids=["md5", "xor", "list"])
def test_what_is_done_call_by_call_every_framework_has(framework: str, level: str, summary_mode: Any) -> None:
    section = {"summary_mode": summary_mode, "slice": [{"end": 2}], "request_id": "7"}
    common = {"dump_enable": False, "load": LOAD_OF_CELLS if framework == "mindspore" else LOAD}
    config = load_config({"dump_path": "x", "level": level, **common, "statistics": section})
    assert framework_problems(config, framework) == []


def test_kernel_level_on_pytorch_takes_no_scope() -> None:
    section = {"list": ["Torch.mm.0.forward"], "scope": ["Torch.mm.0.forward", "Torch.mm.1.forward"]}
    config = load_config({"dump_path": "x", "task": "tensor", "level": "L2", "tensor": section})
    assert [problem.path for problem in framework_problems(config, "pytorch")] == ["tensor.scope"]


def test_a_framework_is_found_by_its_name_and_by_the_name_in_its_dumps() -> None:
    assert supports_of("PyTorch") == (PYTORCH,)
    assert supports_of("mindtorch") == supports_of("msadapter") == (MSADAPTER,)
    assert [support.mode for support in supports_of("mindspore")] == ["dynamic", "static O0/O1", "static O2"]
    assert supports_of(None) == supports_of("jax") == ()


def accepted_configs() -> list[Any]:
    """Every combination of task and level that the configuration itself allows."""
    configs = []
    for task, level in itertools.product(TASKS, LEVELS):
        section = {"bench_path": "golden"} if TASKS[task].needs_bench_path else {}
        report = check_config({"dump_path": "/dump", "task": task, "level": level, task: section})
        if report.config is not None:
            configs.append(pytest.param(report.config, id=f"{task}-{level}"))
    return configs


@pytest.mark.parametrize("config", accepted_configs())
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_validate_and_the_debugger_agree(framework: str, config: Any) -> None:
    """``validate`` asks ``framework_problems``; a debugger ``check_support``, and for MindSpore ``mode_problems``."""

    def debugger_accepts(support: Any) -> bool:
        try:
            check_support(config, supports_of(framework)[0])  # a debugger knows its framework, and the mode later
        except ConfigError:
            return False
        return support.facts is None or not mode_problems(config, support.facts)

    accepted = any(map(debugger_accepts, supports_of(framework)))
    assert (framework_problems(config, framework) == []) is accepted


def test_every_supported_task_is_in_the_table_of_tasks() -> None:
    for support in SUPPORTS:
        assert set(support.tasks) <= set(TASKS)
