"""dump_enable: whatever field of the configuration file is changed, the next step is recorded as it says."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.config.normalize import COMMON_KEYS, SECTIONS, section_keys
from msprobe.core.dump.session import process_debugger
from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

NO_EFFECT = {"enable_dataloader"}
OF_KEPT_STEPS = {"ring", "sample", "disk_budget", "time_budget"}
"""``test_kept_steps.py`` and the tests of ``core/dump/bounds`` change these."""
OF_GRADIENTS = {"grad_level", "param_list", "bounds"}
"""``monitor/grad_probe/test_probe.py`` changes these."""
OF_STATIC_GRAPHS = {"check_mode", "device", "file_format"}
OF_OTHER_TASKS = {"white_list", "black_list", "error_data_path"}
OF_CHECKS = {
    *("pert_mode", "fuzz_device", "fuzz_stage", "fuzz_level", "handler_type", "policy"),
    *("if_preheat", "preheat_step", "max_sample", "first", "every", "share", "dump_mode"),
}
"""``test_checked_trainings.py`` and ``test_watched_operators.py`` change these."""
EQUAL, OTHER = "EQUAL", "OTHER"
"""Stand for the folders of earlier runs, one with the same input and one with another."""

RELU = "Functional.relu.0.forward"
FIRST_LAYER = "Module.fc1.Linear.forward.0"


def names(bench: Any, step: int) -> list[str]:
    found: list[str] = bench.read(step).names()
    return found


def has(name: str) -> Callable[[Any, int], bool]:
    return lambda bench, step: name in names(bench, step)


def described(key: str) -> Callable[[Any, int], bool]:
    return lambda bench, step: key in bench.read(step).data[RELU]["output"][0]


def rows(bench: Any, step: int) -> int:
    count: int = bench.read(step).data[RELU]["output"][0]["shape"][0]
    return count


def task(bench: Any, step: int) -> str:
    found: str = bench.read(step).dump["task"]
    return found


def recorded(bench: Any, step: int) -> bool:
    return f"step{step}" in bench.steps()


def files(bench: Any, step: int) -> bool:
    return bool(bench.read(step).files())


def in_background(bench: Any, step: int) -> bool:
    return process_debugger.current()._worker is not None


def without_stacks(bench: Any, step: int) -> bool:
    return bench.read(step).stack is None


def fed(bench: Any, step: int) -> float:
    value: float = bench.read(step).data[FIRST_LAYER]["input_args"][0]["Max"]
    return value


def mean(bench: Any, step: int) -> float:
    value: float = bench.read(step).data["Functional.gelu.0.forward"]["input_args"][0]["Mean"]
    return value


def in_header(key: str) -> Callable[[Any, int], bool]:
    return lambda bench, step: key in bench.read(step).dump


def findings(bench: Any, step: int) -> int:
    return len(names(bench, step))


@dataclass(frozen=True)
class Change:
    """What the file says before and after, what is looked at in each of the two steps, and what is to be seen there."""

    before: dict[str, Any]
    after: dict[str, Any]
    look: Callable[[Any, int], Any]
    seen: tuple[Any, Any]


def section(look: Callable[[Any, int], Any], first: Any, then: Any, **keys: Any) -> Change:
    return Change({}, {"statistics": keys}, look, (first, then))


CHANGES: dict[str, Change] = {
    "task": Change({}, {"task": "tensor"}, task, ("statistics", "tensor")),
    "rank": Change({}, {"rank": [7]}, recorded, (True, False)),
    "step": Change({}, {"step": [9]}, recorded, (True, False)),
    "level": Change({}, {"level": "mix"}, has(FIRST_LAYER), (False, True)),
    "async_dump": Change({}, {"async_dump": True}, in_background, (False, True)),
    "dump_enable": Change({}, {"dump_enable": False}, recorded, (True, False)),
    "extra_info": Change({}, {"extra_info": False}, without_stacks, (False, True)),
    "precision": Change({}, {"precision": "high"}, mean, (1.6640625, pytest.approx(5 / 3))),
    "risk_level": Change({}, {"risk_level": "ALL"}, has("Tensor.reshape.0.forward"), (False, True)),
    "step_records": Change(
        {"level": "L0"}, {"level": "L0", "step_records": ["gradients"]}, in_header("gradients_of_step"), (False, True)
    ),
    "training_records": Change(
        {"level": "mix"}, {"level": "mix", "training_records": False}, in_header("model_parameters"), (True, False)
    ),
    "custom_apis": Change(
        {}, {"custom_apis": {"changed_kernels": ["fused"]}}, has("changed_kernels.fused.0.forward"), (False, True)
    ),
    "custom_apis taken away": Change(
        {"custom_apis": {"changed_kernels": ["fused"]}}, {}, has("changed_kernels.fused.0.forward"), (True, False)
    ),
    "custom_op_namespaces": Change(
        {}, {"custom_op_namespaces": ["changed_ops"]}, has("changed_ops.twice.0.forward"), (False, True)
    ),
    "custom_op_namespaces taken away": Change(
        {"custom_op_namespaces": ["changed_ops"]}, {}, has("changed_ops.twice.0.forward"), (True, False)
    ),
    "load": Change(
        {"level": "L0"},
        {"level": "L0", "load": {"path": OTHER, "modules": [FIRST_LAYER], "dump_after_load": True}},
        fed,
        (1.0, 5.0),
    ),
    "perturb": Change({"level": "L0"}, {"level": "L0", "perturb": 1}, in_header("perturbed"), (False, True)),
    "scope": section(has("Functional.linear.0.forward"), True, False, scope=[RELU, RELU]),
    "list": section(has("Functional.linear.0.forward"), True, False, list=["relu"]),
    "tensor_list": section(files, False, True, tensor_list=["relu"]),
    "data_mode": section(has(RELU), True, False, data_mode=["backward"]),
    "summary_mode": section(described("md5"), False, True, summary_mode="md5"),
    "slice": section(rows, 6, 2, slice=[{"end": 2}]),
    "request_id": section(rows, 6, 4, request_id="b"),
    "projection": section(described("Projection"), True, False, projection=False),
    "memory": section(described("memory"), False, True, memory=True),
    "bench_path": Change({"task": "tensor"}, {"task": "tensor", "tensor": {"bench_path": EQUAL}}, files, (True, False)),
    "diff_nums": Change(
        {"task": "nan_check"},
        {"task": "nan_check", "nan_check": {"diff_nums": -1}},
        has("Torch.exp.0.forward"),
        (False, True),
    ),
    "overflow_nums": Change(
        {"task": "overflow_check"},
        {"task": "overflow_check", "overflow_check": {"overflow_nums": 3}},
        findings,
        (1, 2),
    ),
}


def test_every_field_is_changed() -> None:
    """dump_path is changed in test_dump_enable."""
    fields = COMMON_KEYS | {key for name in SECTIONS for key in section_keys(name)}
    without = NO_EFFECT | OF_KEPT_STEPS | OF_GRADIENTS | OF_STATIC_GRAPHS | OF_OTHER_TASKS | OF_CHECKS | {"dump_path"}
    assert {name.split(" ")[0] for name in CHANGES} == fields - without


@pytest.fixture
def custom(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of the user with one function, and a namespace with one operator."""
    module = types.ModuleType("changed_kernels")
    module.fused = lambda x: x + 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "changed_kernels", module)
    library = torch.library.Library("changed_ops", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    yield module
    library._destroy()


class Run:
    """A program of two steps."""

    def __init__(self, custom: Any) -> None:
        torch.manual_seed(0)
        self._model = Mlp()
        self._custom = custom

    def step(self, value: float = 1.0) -> None:
        big, x = torch.full((2,), 3e38), torch.full((6, 4), value)
        PrecisionDebugger.start(self._model, rank_id=3, scheduled_tokens={"a": 2, "b": 4})
        self._model(x).sum().backward()
        F.gelu(torch.tensor([1.0, 2.0, 2.0], dtype=torch.bfloat16))
        self._custom.fused(x.reshape(4, 6))
        torch.ops.changed_ops.twice(x)
        torch.mul(big, big)
        torch.log(-x)
        torch.exp(x)
        PrecisionDebugger.stop()
        PrecisionDebugger.step()


def earlier(bench: Any, custom: Any, name: str, value: float) -> str:
    """The folder of a run with input ``value``."""
    bench.root, here = bench.root.with_name(name), bench.root
    bench.open("mix", "tensor")
    run = Run(custom)
    for _ in range(2):
        run.step(value)
    bench.close()
    bench.root, folder = here, bench.root
    return str(folder)


@pytest.mark.matrix("wide", sample=4)
@pytest.mark.parametrize("name", CHANGES)
def test_the_next_step_is_as_the_file_says(bench: Any, tmp_path: Path, custom: Any, name: str) -> None:
    change, file = CHANGES[name], tmp_path / "config.json"

    def write(fields: dict[str, Any]) -> None:
        common = {"task": "statistics", "level": "L1", "dump_path": str(bench.root), "dump_enable": True}
        text = json.dumps({**common, **fields})
        for place, value in ((EQUAL, 1.0), (OTHER, 5.0)):
            if f'"{place}"' in text:
                text = text.replace(place, earlier(bench, custom, place, value))
        file.write_text(text)

    write(change.after)  # its earlier run is made before the debugger
    after = file.read_text()
    bench.close()
    write(change.before)
    PrecisionDebugger(str(file))
    run = Run(custom)
    run.step()
    first = change.look(bench, 0)
    file.write_text(after)
    assert PrecisionDebugger._maybe_reload_config(force=True)
    run.step()
    assert (first, change.look(bench, 1)) == change.seen
