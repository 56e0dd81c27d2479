"""What cannot be drawn ends with one line that says why and what to do, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests import forked
from tests.compare.dumps import call, tensor, write
from tests.visualize.databases import check, read

RELU, LINEAR = "Functional.relu.0.forward", "Module.fc.Linear.forward.0"
DATA = {RELU: call([tensor()], [tensor(0.5)]), LINEAR: call([tensor(0.5)], [tensor(0.7)])}
CONSTRUCT = {RELU: None, LINEAR: None}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = forked.run(["-m", "msprobe", "graph_visualize", *arguments])
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    md5 = {RELU: call([tensor(md5="00ff00ff")], [tensor(md5="00ff00fe")])}
    broken = write(tmp_path / "broken/rank0", DATA)
    (broken / "dump.json").write_text('{"task": "statistics", "data": {')
    odd = write(tmp_path / "odd/rank0", DATA)
    (odd / "construct.json").write_text("[1, 2]")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "mixed/a").mkdir(parents=True)
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "blocked").write_text("a file where the folder should be")
    (tmp_path / "map.yaml").write_text("TopLayer:\n  a: [unclosed\n")
    for step in (1, 2):
        write(tmp_path / f"steps/step{step}/rank0", DATA, CONSTRUCT)
    write(tmp_path / "other/step7/rank0", DATA, CONSTRUCT)
    write(tmp_path / "other/step8/rank0", DATA, CONSTRUCT)
    return {
        "root": tmp_path,
        "good": write(tmp_path / "good/rank0", DATA, CONSTRUCT, {RELU: ["File a.py"]}),
        "md5": write(tmp_path / "md5/rank0", md5, {RELU: None}),
        "tensor": write(tmp_path / "tensor/rank0", DATA, CONSTRUCT, task="tensor"),
        "empty": write(tmp_path / "empty/rank0", {}),
        "broken": broken,
        "odd": odd,
        "out": tmp_path / "out",
    }


CASES: list[Any] = [
    pytest.param(["-tp", "{root}/missing"], 2, "no such file or folder; give the dump_path of a run", id="missing"),
    pytest.param(["-tp", "{root}/file.txt"], 2, "give the dump_path of a run", id="file"),
    pytest.param(["-tp", "{root}/nothing"], 2, "found: nothing); give the dump_path", id="empty-folder"),
    pytest.param(["-tp", "{root}/mixed"], 2, "no dump.json in it", id="other-names"),
    pytest.param(["-tp", "{broken}"], 2, "record the run again", id="broken-dump"),
    pytest.param(
        ["-tp", "{odd}"], 2, "construct.json: not a JSON object; copy it again, or remove it", id="broken-construct"
    ),
    pytest.param(["-tp", "{empty}"], 2, "nothing to draw; check level, scope and list", id="no-records"),
    pytest.param(
        ["-tp", "{good}", "-gp", "{root}/missing"],
        2,
        "no such file or folder; give the dump_path of a run",
        id="missing-golden",
    ),
    pytest.param(["-tp", "{good}", "-gp", "{md5}"], 3, "use one summary_mode", id="md5-statistics"),
    pytest.param(["-tp", "{tensor}", "-gp", "{good}"], 3, "record both with one task", id="tensor-statistics"),
    pytest.param(["-tp", "{root}/steps", "-gp", "{root}/other"], 3, "no step and rank is on both", id="other-steps"),
    pytest.param(["-tp", "{good}", "-gp", "{root}/steps"], 3, "give one of them", id="one-against-steps"),
    pytest.param(
        ["-tp", "{good}", "-gp", "{good}", "-lm", "{root}/none.yaml"],
        2,
        "none.yaml: the layer mapping cannot be read (No such file or directory); check the path",
        id="no-mapping",
    ),
    pytest.param(
        ["-tp", "{good}", "-gp", "{good}", "-lm", "{root}/map.yaml"],
        2,
        "map.yaml, line 3: no valid YAML",
        id="bad-mapping",
    ),
    pytest.param(["-tp", "{good}", "--rank_size", "2"], 2, "--tp is missing", id="merge-without-tp"),
    pytest.param(
        ["-tp", "{good}", "--rank_size", "2", "--tp", "2", "--pp", "1", "--order", "foo"],
        2,
        "--order 'foo'",
        id="order",
    ),
    pytest.param(
        ["-tp", "{good}", "--rank_size", "2", "--tp", "2", "--pp", "1"],
        2,
        "has 1 rank folders; give the number of ranks",
        id="rank-count",
    ),
    pytest.param(["-tp", "{good}", "-o", "{root}/blocked"], 2, "is a file; give a folder for the result", id="output"),
    pytest.param(["-tp", "{good}", "--file_type", "xml"], 2, "'xml' is not one of", id="file-type"),
    pytest.param([], 2, "Missing option", id="no-target"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), CASES)
def test_one_line_and_a_status(folders: dict[str, Path], arguments: list[str], status: int, message: str) -> None:
    filled = [word.format(**folders) for word in arguments]
    result = run("-o", folders["out"], *filled)
    errors = [line for line in result.stderr.splitlines() if line.startswith("msprobe: error: ")]
    assert result.returncode == status, result.stderr
    assert len(errors) == 1 and message in errors[0]
    assert "Traceback" not in result.stderr
    assert not folders["out"].exists() or not list(folders["out"].iterdir())


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("both", [False, True], ids=["one-side", "both-sides"])
@pytest.mark.parametrize("policy", ["default", "reference"])
def test_numbers_that_no_float_holds_are_drawn(folders: dict[str, Path], policy: str, both: bool) -> None:
    endless = dict.fromkeys(("Max", "Min", "Mean", "Norm"), 10**400)
    odd = write(folders["root"] / "endless/rank0", {**DATA, RELU: call([tensor()], [tensor() | endless])}, CONSTRUCT)
    golden = odd if both else folders["good"]
    done = run("-tp", odd, "-gp", golden, "-o", folders["out"], "-oc", "--policy", policy)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    (path,) = folders["out"].iterdir()
    assert set(read(path).side()) >= {RELU, LINEAR}


def test_a_missing_stack_file_is_a_warning(folders: dict[str, Path]) -> None:
    folder = write(folders["root"] / "unstacked/rank0", DATA, CONSTRUCT)
    result = run("-tp", folder, "-o", folders["out"])
    assert result.returncode == 0
    assert "no stack.json" in result.stderr
    (path,) = folders["out"].iterdir()
    assert read(path).stacks == {"NPU_0_0_0": []}


def test_an_empty_construct_gives_a_graph_from_the_names(folders: dict[str, Path]) -> None:
    names = ["Module.a.Net.forward.0", "Module.a.b.Fc.forward.0", "Functional.relu.0.forward", "Tensor.add.0.forward"]
    folder = write(folders["root"] / "level1/rank0", dict.fromkeys(names, DATA[RELU]))
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    side = tables.side()
    assert side["Module.a.b.Fc.forward.0"]["up_node"] == "Module.a.Net.forward.0"
    assert side["Functional.relu.0.forward"]["up_node"] == "Apis_Between_Modules.0"
    assert side["Apis_Between_Modules.0"]["node_type"] == "9"


def test_cycles_are_cut_and_named(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ring = [f"Module.m{number}.Net.forward.0" for number in range(3)]
    construct = {name: ring[(number + 1) % 3] for number, name in enumerate(ring)}
    below, own = "Module.m0.leaf.Fc.forward.0", "Module.self.Net.forward.0"
    construct |= {below: ring[0], own: own}
    folder = write(folders["root"] / "ring/rank0", dict.fromkeys(construct, DATA[RELU]), construct)
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    assert set(tables.side()) == {*construct, "DefaultModel"}
    assert tables.side()[below]["up_node"] == ring[0]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "its own ancestor" in line]
    assert own in line and any(name in line for name in ring)


def test_unlisted_parents_and_forgotten_records_are_shown(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    parent = "Module.lost.Net.forward.0"
    folder = write(folders["root"] / "holes/rank0", DATA, {LINEAR: parent})
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    assert set(tables.side()) == {RELU, LINEAR, parent, "DefaultModel"}
    told = capsys.readouterr().out
    assert f"{parent}: is a parent that construct.json does not list" in told
    assert f"{RELU}: has no parent in construct.json" in told


ABOVE, BELOW = "Module.net.Net.forward.0", "Module.net.fc.Linear.forward.0"


@pytest.mark.parametrize(
    "parent",
    [
        pytest.param("", id="empty"),
        pytest.param(5, id="number"),
        pytest.param(False, id="bool"),
        pytest.param({"a": 1}, id="object"),
        pytest.param([], id="empty-list"),
        pytest.param(["", 0], id="empty-in-list"),
        pytest.param([7, 0], id="number-in-list"),
    ],
)
def test_a_parent_that_is_no_name_is_told_and_its_child_hangs_where_its_name_says(
    folders: dict[str, Path], parent: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    construct = {RELU: parent, BELOW: parent, ABOVE: None}
    folder = write(folders["root"] / "nameless/rank0", dict.fromkeys(construct, DATA[RELU]), construct)
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    side = tables.side()
    assert set(side) == {*construct, "DefaultModel"}
    assert (side[BELOW]["up_node"], side[RELU]["up_node"]) == (ABOVE, "DefaultModel")
    assert f"{RELU}, {BELOW}: has a parent in construct.json that is no name" in capsys.readouterr().out


@pytest.mark.parametrize("micro", [pytest.param("x", id="text"), pytest.param(-1, id="negative")])
def test_a_micro_step_that_is_no_number_is_told(
    folders: dict[str, Path], micro: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    construct = {ABOVE: [None, 0], BELOW: [ABOVE, micro], "megatron_micro_step_number": micro}
    folder = write(folders["root"] / "micro/rank0", dict.fromkeys((ABOVE, BELOW), DATA[RELU]), construct)
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    row = tables.side()[BELOW]
    assert (row["up_node"], row["micro_step_id"], tables.config["micro_steps"]) == (ABOVE, 0, 1)
    told = capsys.readouterr().out
    assert f"{BELOW}: has a micro step in construct.json that is no number" in told
    assert "megatron_micro_step_number in construct.json is no number" in told


@pytest.mark.parametrize("parent", [None, BELOW], ids=["null", "name"])
def test_the_root_may_be_listed(folders: dict[str, Path], parent: str | None) -> None:
    construct = {"DefaultModel": parent, ABOVE: "DefaultModel", BELOW: ABOVE}
    folder = write(folders["root"] / "rooted/rank0", dict.fromkeys((ABOVE, BELOW), DATA[RELU]), construct)
    tables = read(visualize(Request(target=folder, output=folders["out"])))
    check(tables)
    assert tables.side()[ABOVE]["up_node"] == "DefaultModel"


def test_a_mapping_without_a_golden_run_is_told(folders: dict[str, Path]) -> None:
    mapping = folders["root"] / "layers.yaml"
    mapping.write_text("TopLayer:\n  fc: fc\n")
    result = run("-tp", folders["good"], "-o", folders["out"], "-lm", mapping, "-fm")
    assert result.returncode == 0
    (line,) = [line for line in result.stderr.splitlines() if "-gp" in line]
    assert "fuzzy_match, layer_mapping" in line


def test_runs_in_the_same_second_do_not_collide(folders: dict[str, Path]) -> None:
    made: list[Path] = []
    request = Request(target=folders["good"], output=folders["out"])
    threads = [threading.Thread(target=lambda: made.append(visualize(request))) for _ in range(4)]
    for thread in threads:
        thread.start()
    made += [visualize(request) for _ in range(2)]
    for thread in threads:
        thread.join()
    assert len(set(made)) == 6
    assert all(len(read(path).side()) == 3 for path in made)
    assert sorted(folders["out"].iterdir()) == sorted(made)


def test_the_file_is_private_and_needs_no_side_files(folders: dict[str, Path]) -> None:
    path = visualize(Request(target=folders["good"], output=folders["out"]))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes()[18:20] == b"\x01\x01", "write-ahead mode would need a writable folder to read it"
    assert os.listdir(folders["out"]) == [path.name]


def test_names_of_the_user_are_kept_as_they_are(folders: dict[str, Path]) -> None:
    name = "Module.<b>'\"x\\ 模块.Net.forward.0"
    folder = write(folders["root"] / "names/rank0", {name: DATA[RELU]}, {name: None})
    tables = read(visualize(Request(target=folder, golden=folder, output=folders["out"])))
    row = tables.side()[name]
    assert json.loads(row["matched_node_link"]) == ["DefaultModel", name]
    assert list(json.loads(row["input_data"])) == [f"{name}.input.0"]
