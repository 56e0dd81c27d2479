"""The support matrix says what the checks of a configuration say, and asks no framework."""

from __future__ import annotations

import pytest

from msprobe.core.backend.support import (
    MINDSPORE,
    MINDSPORE_STATIC,
    MINDSPORE_WHOLE_GRAPH,
    MSADAPTER,
    PYTORCH,
    SUPPORTS,
    Support,
    check_support,
)
from msprobe.core.backend.support_matrix import FEATURES, cells
from msprobe.core.config import load_config
from msprobe.core.errors import ConfigError

FOUND = list(cells())
XOR = {"summary_mode": "xor"}
BY_PLACE = {(cell.framework, cell.task, cell.level): cell.features for cell in FOUND}


def test_every_declared_task_and_level_has_a_cell() -> None:
    for support in SUPPORTS:
        assert {cell.task for cell in FOUND if cell.framework == support.name} == set(support.tasks)
        assert {cell.level for cell in FOUND if cell.framework == support.name} == set(support.levels)


def test_no_feature_is_nowhere() -> None:
    """A feature that nobody has would be a mistake in the configuration that asks for it."""
    assert {feature for cell in FOUND for feature in cell.features} == set(FEATURES)


@pytest.mark.parametrize(
    ("framework", "task", "level", "feature", "there"),
    [
        pytest.param(PYTORCH, "statistics", "L1", "slice", True, id="pytorch-slice"),
        pytest.param(PYTORCH, "tensor", "L2", "async_dump", False, id="pytorch-L2-async_dump-ignored"),
        pytest.param(MINDSPORE_STATIC, "tensor", "L2", "async_dump", True, id="mindspore-static-L2-async_dump"),
        pytest.param(PYTORCH, "statistics", "debug", "slice", False, id="slice-without-effect"),
        pytest.param(PYTORCH, "tensor", "L2", "list", True, id="pytorch-L2"),
        pytest.param(MINDSPORE, "statistics", "mix", "md5 checksums", True, id="mindspore-md5"),
        pytest.param(MINDSPORE, "statistics", "mix", "xor checksums", True, id="mindspore-xor"),
        pytest.param(MINDSPORE, "statistics", "L2", "xor checksums", False, id="mindspore-L2-xor"),
        pytest.param(MINDSPORE, "tensor", "mix", "dump_enable", True, id="mindspore-dump_enable"),
        pytest.param(MINDSPORE, "statistics", "mix", "risk_level CORE", False, id="mindspore-risk_level-ignored"),
        pytest.param(MINDSPORE_STATIC, "statistics", "L0", "slice", False, id="mindspore-static-slice"),
        pytest.param(MINDSPORE, "statistics", "L0", "chosen statistics", True, id="mindspore-dynamic-chosen"),
        pytest.param(MINDSPORE_STATIC, "statistics", "L0", "chosen statistics", True, id="mindspore-static-chosen"),
        pytest.param(MINDSPORE_WHOLE_GRAPH, "tensor", "L2", "list", True, id="mindspore-O2-list"),
        pytest.param(MSADAPTER, "tensor", "mix", "data_mode", True, id="msadapter-data_mode"),
        pytest.param(MSADAPTER, "statistics", "L1", "load", True, id="msadapter-load"),
        pytest.param(MINDSPORE, "statistics", "L1", "load", True, id="mindspore-load"),
        pytest.param(MINDSPORE, "statistics", "L1", "custom_op_namespaces", False, id="mindspore-namespaces"),
        pytest.param(MINDSPORE, "statistics", "L2", "request_id", False, id="kernels-request_id"),
        pytest.param(MINDSPORE_STATIC, "statistics", "L0", "load", False, id="mindspore-static-load"),
    ],
)
def test_some_facts(framework: Support, task: str, level: str, feature: str, there: bool) -> None:
    assert (feature in BY_PLACE[(framework.name, task, level)]) is there


@pytest.mark.parametrize(
    ("framework", "task", "levels"),
    [
        pytest.param(MINDSPORE, "overflow_check", "L0 L1 mix", id="dynamic-overflow_check"),
        pytest.param(MINDSPORE_STATIC, "statistics", "L0 L2 debug", id="static-statistics"),
        pytest.param(MINDSPORE_STATIC, "overflow_check", "", id="static-overflow_check"),
        pytest.param(MINDSPORE_WHOLE_GRAPH, "overflow_check", "L2", id="O2-overflow_check"),
        pytest.param(MINDSPORE_WHOLE_GRAPH, "exception_dump", "", id="O2-exception_dump"),
    ],
)
def test_the_mode_of_mindspore_counts(framework: Support, task: str, levels: str) -> None:
    found = [cell.level for cell in FOUND if (cell.framework, cell.task) == (framework.name, task)]
    assert sorted(found) == sorted(levels.split())


def test_the_cells_follow_the_declaration() -> None:
    (cell,) = cells([Support("msadapter", ("statistics",), ("L1",), ignored=("async_dump",))])
    assert (cell.task, cell.level) == ("statistics", "L1")
    assert "async_dump" not in cell.features
    assert "async_dump" in BY_PLACE[("msadapter", "statistics", "L1")]


@pytest.mark.parametrize("support", [MINDSPORE, MSADAPTER], ids=lambda support: support.name)
@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"custom_op_namespaces": ["mine"]}, "custom_op_namespaces"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_framework_lacks_is_refused_in_one_line_by_its_field(
    support: Support, config: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_support(load_config({"dump_path": "dump", **config}), support)
    (problem,) = caught.value.problems
    assert problem.path == field
    assert support.framework in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("support", "level", "config", "field"),
    [
        pytest.param(MINDSPORE, "L2", {"dump_enable": False}, "dump_enable", id="kernels-dump_enable"),
        pytest.param(MINDSPORE, "L2", {"statistics": XOR}, "statistics.summary_mode", id="kernels-xor"),
        pytest.param(MINDSPORE, "L2", {"custom_apis": {"a": ["b"]}}, "custom_apis", id="kernels-custom_apis"),
    ],
)
def test_what_is_for_calls_of_python_is_refused_elsewhere(
    support: Support, level: str, config: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_support(load_config({"dump_path": "dump", "level": level, **config}), support)
    assert [problem.path for problem in caught.value.problems] == [field]
    assert support.framework in str(caught.value)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("risk_level", ["CORE", "FOCUS", "ALL"])
def test_a_dynamic_graph_takes_what_pytorch_takes(level: str, risk_level: str) -> None:
    section = {"summary_mode": "xor", "slice": [{"end": 1}], "request_id": "7"}
    settings = {
        "dump_path": "dump",
        "level": level,
        "risk_level": risk_level,
        "dump_enable": True,
        "custom_apis": {"a": ["b"]},
    }
    check_support(load_config({**settings, "statistics": section}), MINDSPORE)


def test_a_configuration_of_pytorch_runs_unchanged_elsewhere() -> None:
    settings = {
        "dump_path": "dump",
        "task": "tensor",
        "level": "L0",
        "step": [0],
        "tensor": {"data_mode": ["forward"]},
    }
    for support in SUPPORTS:
        check_support(load_config(settings), support)
