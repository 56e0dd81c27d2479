"""YAML of users is read whole or refused with its line: no alias makes a few lines larger than the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.core.config import load_config
from msprobe.core.errors import MsprobeException
from msprobe.core.yaml_file import YamlError, compose_yaml, load_table, load_yaml
from msprobe.report.merge_ranks import read_config
from msprobe.response_anomaly.settings import read_document
from msprobe.setup_check.collection.hyperparameters import read_settings
from msprobe.setup_check.logs.tables import verify_log
from tests.rules.tree import ROOT


def bomb(levels: int = 9, merges: bool = False) -> str:
    """Return the text of a file whose aliases stand for nine to the power of ``levels`` values."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        before = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{before}]}}" if merges else f"[{before}]"))
    return "\n".join(lines) + "\n"


def read_logs(path: Path) -> Any:
    return verify_log(path, path, path.parent / "out")


READERS: list[Callable[[Path], Any]] = [
    load_config,
    read_settings,
    read_document,
    read_config,
    read_logs,
]
WITH_TEXTS: list[Callable[[Path], Any]] = [*READERS, lambda path: read_mapping(path, "cell")]  # whose scalars are texts


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("reader", WITH_TEXTS)
@pytest.mark.parametrize("merges", [False, True])
def test_every_reader_refuses_a_file_that_grows(reader: Callable[[Path], Any], merges: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(bomb(40, merges))
    with pytest.raises(MsprobeException, match=r"its aliases .* stand for more than 100000 values") as told:
        reader(path)
    assert str(path) in str(told.value) and "\n" not in told.value.error_info


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text", ["[" * 1500, "a: !!bool maybe", "a: !!int ''", "a: 2026-99-99", "a: &a [*a]", "? [b]\n: c"]
)
def test_every_reader_says_in_one_line_what_is_wrong(reader: Callable[[Path], Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(MsprobeException) as told:
        reader(path)
    assert "\n" not in told.value.error_info


def test_aliases_that_stand_for_little_are_read() -> None:
    assert load_yaml("base: &b {lr: 0.1, wd: 0}\nrun: {<<: *b, lr: 0.2}\nlist: [*b, *b]") == {
        "base": {"lr": 0.1, "wd": 0},
        "run": {"lr": 0.2, "wd": 0},
        "list": [{"lr": 0.1, "wd": 0}] * 2,
    }
    assert load_yaml("") is None and compose_yaml("# nothing") is None


def test_a_file_without_aliases_may_be_large() -> None:
    values = load_yaml(json.dumps([1] * 100_001))
    assert len(values) == 100_001


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: 1\nb: [", "line 2, column 5"), ("x: 1\na: &a\n  - *a\n", "line 2, column 4"), ("a: *b", "line 1, column 4")],
)
def test_the_place_is_named(text: str, said: str) -> None:
    with pytest.raises(YamlError, match="line") as told:
        load_yaml(text)
    assert str(told.value).startswith(said), str(told.value)


def test_no_object_is_made() -> None:
    with pytest.raises(YamlError, match="could not determine a constructor"):
        load_yaml("!!python/object/apply:os.getcwd []")


def test_tables_of_the_package() -> None:
    assert "modules" in load_table("msprobe", "legacy_paths.yaml")


def test_nobody_else_loads_yaml() -> None:
    loaders = ("yaml.load", "yaml.safe_load", "yaml.full_load", "yaml.compose", "SafeLoader", "yaml.unsafe_load")
    places = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "msprobe").rglob("*.py")
        if any(loader in path.read_text("utf-8") for loader in loaders)
    }
    assert places == {"msprobe/core/yaml_file.py"}
