"""``msprobe graph_visualize``: what each option changes in what it leaves and says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.cli.main import run
from tests.compare.dumps import call, module, tensor, write
from tests.visualize.databases import Tables, check, read

FC, DENSE, RELU = "Module.net.fc.Linear.forward.0", "Module.net.dense.Linear.forward.0", "Functional.relu.{}.forward"
Draw = Callable[..., Tables]


def net(folder: Path, layer: str = FC, relu: int = 0, result: float = 0.7, **more: Any) -> Path:
    data = {layer: module([tensor()], [tensor(result)]), RELU.format(relu): call([tensor(result)], [tensor(result)])}
    return write(folder, data | more, dict.fromkeys([*data, *more], None))


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Runs the command and reads the one database that it leaves."""

    def drawn(*words: object) -> Tables:
        out = tmp_path / "out"
        before = set(out.glob("*.vis.db"))
        assert run(["graph_visualize", *map(str, words), "-o", str(out)]) == 0
        (path,) = set(out.glob("*.vis.db")) - before
        tables = read(path)
        check(tables)
        return tables

    return drawn


def partner(tables: Tables, name: str) -> str | None:
    link = json.loads(tables.side()[name]["matched_node_link"])
    return link[-1] if link else None


def test_the_long_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--target_path", net(tmp_path / "bad"), "--golden_path", net(tmp_path / "good")]
    words += ["--output_path", tmp_path / "out", "--overflow_check", "--fuzzy_match"]
    words += ["--is_print_compare_log", "--is_print_progress_log"]
    assert run(["graph_visualize", *map(str, words)]) == 0
    (path,) = (tmp_path / "out").iterdir()
    assert f"Graph: {path}\n" in capsys.readouterr().out
    assert path.name.startswith("compare_") and path.name.endswith(".vis.db")


def test_overflow_is_looked_for_when_asked(draw: Draw, tmp_path: Path) -> None:
    dump = net(tmp_path / "bad", **{"Torch.exp.0.forward": call([tensor()], [tensor(Max=float("inf"))])})
    for words, looked, level in (([], 0, None), (["-oc"], 1, "critical")):
        tables = draw("-tp", dump, *words)
        assert tables.config["overflow_check"] == looked
        assert tables.side()["Torch.exp.0.forward"]["overflow_level"] == level


def test_layers_of_a_file_pair(draw: Draw, tmp_path: Path) -> None:
    (tmp_path / "layers.yaml").write_text("TopLayer:\n  net.dense: net.fc\n")
    words = ["-tp", net(tmp_path / "bad", DENSE), "-gp", net(tmp_path / "good")]
    assert partner(draw(*words), DENSE) is None
    assert partner(draw(*words, "-lm", tmp_path / "layers.yaml"), DENSE) == FC


def test_fuzzy_matching_heeds_no_numbers(draw: Draw, tmp_path: Path) -> None:
    words = ["-tp", net(tmp_path / "bad", relu=3), "-gp", net(tmp_path / "good"), "--policy", "reference"]
    assert partner(draw(*words), RELU.format(3)) is None
    assert partner(draw(*words, "-fm"), RELU.format(3)) == RELU.format(0)


def test_the_policy_says_who_colours(draw: Draw, tmp_path: Path) -> None:
    """A result that is off by six per cent is nothing to the published rules."""
    words = ["-tp", net(tmp_path / "bad", result=0.74), "-gp", net(tmp_path / "good")]
    levels = [draw(*words, "--policy", policy).side()[FC]["precision_index"] for policy in ("default", "reference")]
    assert levels == [1, 0]


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        pytest.param("-tensor_log", f"{FC}.output.0: error: norm differs", id="values"),
        pytest.param("-progress_log", "1 of 1: step 0 rank 0", id="progress"),
    ],
)
def test_lines_of_the_log(flag: str, line: str, draw: Draw, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-tp", net(tmp_path / "bad", result=0.8), "-gp", net(tmp_path / "good")]
    draw(*words)
    assert line not in capsys.readouterr().err
    draw(*words, flag)
    assert line in capsys.readouterr().err


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    for rank in range(2):
        net(tmp_path / f"job/rank{rank}")
    return tmp_path / "job"


def test_one_word_or_two_after_a_size(ranks: Path, draw: Draw, tmp_path: Path) -> None:
    one = net(tmp_path / "one/rank0")
    sizes = ["--rank_size", 2, 1, "--tp", 2, 1, "--pp", 1, 1, "--vpp", 1, "--order", "tp-dp-pp", "tp-cp-ep-dp-pp"]
    tables = draw("-tp", ranks, "-gp", one.parent, *sizes)
    assert tables.config["rank_list"] == "[0]" and partner(tables, FC) == FC
    assert draw("-tp", ranks, "--rank_size", 2, "--tp", 2, "--pp", 1).config["rank_list"] == "[0]"


def test_a_merged_run_as_files(ranks: Path, draw: Draw, tmp_path: Path) -> None:
    words = ["-tp", ranks, "--rank_size", 2, "--tp", 2, "--pp", 1, "--file_type", "json"]
    assert run(["graph_visualize", *map(str, words), "-o", str(tmp_path / "files")]) == 0
    folder = tmp_path / "files/step0/rank0"
    assert {path.name for path in folder.iterdir()} == {"dump.json", "stack.json", "construct.json"}
    assert json.loads((folder / "dump.json").read_text())["is_merged"] is True
    assert FC in draw("-tp", folder).side()


def test_files_of_what_is_not_merged_are_a_database(
    draw: Draw, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw("-tp", net(tmp_path / "run"), "--file_type", "json")
    assert "JSON is for merged graphs of one run" in capsys.readouterr().err


def test_tensorboard_is_told_of_no_plugin_of_ours() -> None:
    """Two plugins of one name stop TensorBoard; graph_ascend is the name of those that read our files."""
    from importlib.metadata import entry_points

    found = [one for one in entry_points(group="tensorboard_plugins") if one.value.partition(".")[0] == "msprobe"]
    assert found == []
