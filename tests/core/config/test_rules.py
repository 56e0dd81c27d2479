"""Rules between fields: scope names per level, tasks and levels, settings without effect."""

import pickle
from typing import Any

import pytest

from msprobe.core.config import check_config, load_config
from msprobe.core.errors import ConfigError, ScopeConfigError

API = ["Functional.relu.0.forward", "Tensor.add.2.backward"]
MODULE = ["Module.conv1.Conv2d.forward.0", "Cell.fc2.Dense.backward.0"]


@pytest.mark.parametrize(
    ("level", "scope"),
    [
        ("L1", API),
        ("L1", ["Custom.my_op.0.forward", "Triton.kernel.3.forward"]),
        ("L1", ["MindSpeed.fused.0.forward", "package.module.op.1.backward"]),
        ("L0", MODULE),
        ("mix", [API[0], MODULE[1]]),
        ("mix", []),
    ],
)
def test_scope_accepts_every_recorded_name_of_the_level(level: str, scope: list[str]) -> None:
    config = load_config({"dump_path": "x", "level": level, "statistics": {"scope": scope}})
    assert config.section.scope == tuple(scope)


def test_scope_beside_other_problems_is_one_common_error() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"dump_path": "x", "precision": "x", "statistics": {"scope": ["a"]}})
    assert not isinstance(caught.value, ScopeConfigError)
    assert caught.value.code == 0


def test_a_scope_error_survives_pickling() -> None:
    with pytest.raises(ScopeConfigError) as caught:
        load_config({"dump_path": "x", "statistics": {"scope": ["a"]}})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.problems) == (ScopeConfigError, str(caught.value), caught.value.problems)


@pytest.mark.parametrize(
    "raw",
    [
        {"async_dump": True, "statistics": {"summary_mode": "md5"}},
        {"async_dump": True, "task": "tensor", "tensor": {"list": []}},
        {"task": "statistics", "statistics": {"scope": API, "list": ["relu"]}},
        {"task": "statistics", "statistics": {"list": ["name-regex(Default/.+)"]}},
        {"level": "L2", "task": "tensor", "tensor": {"list": ["Torch.mm.0.forward"]}},
        {"level": "debug", "task": "tensor"},
    ],
)
def test_allowed_without_a_word(raw: dict[str, Any]) -> None:
    report = check_config({"dump_path": "x", **raw})
    assert (report.problems, report.warnings) == ((), ())


@pytest.mark.parametrize("level", ["L1", "L2", "debug"])
def test_structure_at_another_level_becomes_mix_with_a_warning(level: str) -> None:
    report = check_config({"dump_path": "x", "task": "structure", "level": level})
    assert report.config is not None
    assert report.config.level == "mix"
    assert len(report.warnings) == 1
    assert level in report.warnings[0]


def test_a_level_that_was_not_given_is_chosen_in_silence() -> None:
    for task, level in (("structure", "mix"), ("exception_dump", "L2")):
        report = check_config({"dump_path": "x", "task": task})
        assert report.config is not None
        assert (report.config.level, report.warnings) == (level, ())


@pytest.mark.parametrize(("key", "value"), [("tensor_list", ["relu"]), ("slice", [{"dim": 0, "begin": 0, "end": 1}])])
def test_what_a_level_cannot_do_is_dropped_with_a_warning(key: str, value: list[Any]) -> None:
    report = check_config({"dump_path": "x", "level": "debug", "statistics": {key: value}})
    assert report.config is not None
    assert getattr(report.config.section, key) == ()
    assert [warning.split(":")[0] for warning in report.warnings] == [f"statistics.{key}"]


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"async_dump": True, "task": "structure", "level": "mix"}, "async_dump"),
        ({"risk_level": "CORE", "level": "L0"}, "risk_level"),
    ],
)
def test_a_common_field_without_effect_is_a_warning(raw: dict[str, Any], key: str) -> None:
    report = check_config({"dump_path": "x", **raw})
    assert report.config is not None
    assert [warning.split(":")[0] for warning in report.warnings] == [key]
