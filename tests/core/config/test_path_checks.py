"""Directories that a configuration reads from must be there before a training starts."""

from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import load_config
from msprobe.core.config.path_checks import path_problems, require_paths
from msprobe.core.errors import ConfigError, FileCheckException


def configurations(place: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("tensor.bench_path", {"task": "tensor", "tensor": {"bench_path": place}}),
        ("acc_check.error_data_path", {"task": "acc_check", "acc_check": {"error_data_path": place}}),
        ("custom_apis", {"custom_apis": f"{place}/apis.yaml"}),
        ("load.path", {"load": {"path": place, "modules": ["Module.a.A.forward.0"]}}),
    ]


def test_a_missing_place_is_named_with_its_path(tmp_path: Path) -> None:
    for path, raw in configurations(str(tmp_path / "missing")):
        found = path_problems(load_config({"dump_path": "x", **raw}))
        assert [problem.path for problem in found] == [path]
        assert str(tmp_path) in str(found[0])


@pytest.mark.parametrize("url", ["s3://bucket/run", "memory://x", "gs://b/c"])
def test_a_url_is_refused_in_one_line_wherever_a_path_of_this_machine_is_needed(url: str) -> None:
    for path, raw in [("dump_path", {"dump_path": url}), *configurations(url)]:
        with pytest.raises(ConfigError) as caught:
            load_config({"dump_path": "x", **raw})
        (problem,) = caught.value.problems
        assert (problem.path, len(str(caught.value).splitlines())) == (path, 1)
        assert "is a URL; give a path of this machine" in str(problem)
    assert load_config({"dump_path": "C:/x//y"}).dump_path == "C:/x//y"


def test_a_place_that_is_there_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "apis.yaml").write_text("math: [hypot]")
    for _, raw in configurations(str(tmp_path)):
        require_paths(load_config({"dump_path": "x", **raw}))


@pytest.mark.parametrize(
    "raw", [{"task": "tensor", "tensor": {"bench_path": "missing"}}, {"custom_apis": "missing"}], ids=["bench", "apis"]
)
def test_a_missing_golden_dump_or_list_is_an_illegal_path(raw: dict[str, Any]) -> None:
    config = load_config({"dump_path": "x", **raw})
    with pytest.raises(FileCheckException) as caught:
        require_paths(config)
    assert caught.value.code == FileCheckException.ILLEGAL_PATH_ERROR


def test_other_missing_places_are_configuration_errors() -> None:
    config = load_config({"load": {"path": "missing", "modules": ["Module.a.A.forward.0"]}})
    with pytest.raises(ConfigError, match=r"load\.path"):
        require_paths(config)
