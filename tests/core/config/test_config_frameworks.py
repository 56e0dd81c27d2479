"""What a framework does not have is found before a training, from the documentation alone."""

from typing import Any

import pytest

from msprobe.core.config import load_config
from msprobe.core.config.frameworks import TASKS, framework_problems

LOAD = {"path": "golden", "modules": ["Module.a.A.forward.0"]}
LOAD_OF_CELLS = {"path": "golden", "modules": ["Cell.a.A.forward.0"]}


@pytest.mark.parametrize("framework", TASKS)
@pytest.mark.parametrize("task", ["statistics", "tensor", "structure", "overflow_check", "diff_check", "nan_check"])
def test_every_framework_has_the_main_tasks(framework: str, task: str) -> None:
    assert framework_problems(load_config({"dump_path": "x", "task": task}), framework) == ()


@pytest.mark.parametrize(
    ("framework", "raw", "path"),
    [
        ("pytorch", {"task": "exception_dump"}, "task"),
        ("msadapter", {"task": "exception_dump", "level": "L2"}, "task"),
        ("msadapter", {"task": "acc_check"}, "task"),
        ("pytorch", {"statistics": {"summary_mode": ["max", "hash"]}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L0", "statistics": {"summary_mode": ["nan count"]}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L2", "statistics": {"summary_mode": "xor"}}, "statistics.summary_mode"),
        ("mindspore", {"level": "L2", "dump_enable": False}, "dump_enable"),
        ("mindspore", {"level": "L2", "statistics": {"request_id": "7"}}, "statistics.request_id"),
        ("mindspore", {"level": "L2", "custom_apis": {"a.b": ["c"]}}, "custom_apis"),
        ("mindspore", {"level": "L2", "task": "tensor", "tensor": {"bench_path": "golden"}}, "tensor.bench_path"),
        ("mindspore", {"load": LOAD}, "load.modules[0]"),
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
    found = framework_problems(load_config({"dump_path": "x", **raw}), framework)
    assert [problem.path for problem in found] == [path]


@pytest.mark.parametrize("framework", TASKS)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("summary_mode", ["md5", "xor", ["max", "min", "mean", "l2norm"]], ids=["md5", "xor", "list"])
def test_what_is_done_call_by_call_every_framework_has(framework: str, level: str, summary_mode: Any) -> None:
    section = {"summary_mode": summary_mode, "slice": [{"end": 2}], "request_id": "7"}
    common = {"dump_enable": False, "load": LOAD_OF_CELLS if framework == "mindspore" else LOAD}
    config = load_config({"dump_path": "x", "level": level, **common, "statistics": section})
    assert framework_problems(config, framework) == ()


def test_kernel_level_on_pytorch_takes_no_scope() -> None:
    section = {"list": ["Torch.mm.0.forward"], "scope": ["Torch.mm.0.forward", "Torch.mm.1.forward"]}
    config = load_config({"dump_path": "x", "task": "tensor", "level": "L2", "tensor": section})
    assert [problem.path for problem in framework_problems(config, "pytorch")] == ["tensor.scope"]
    assert framework_problems(config, "mindspore") == ()
