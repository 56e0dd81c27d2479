"""The main job from end to end: two trainings, one with a fault, and ``msprobe compare`` names the operation."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.end_to_end.fork_runner import ROOT, log_of, run_scripts

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = Path(__file__).resolve().parent / "scripts" / "two_steps.py.txt"
STATISTICS = {"task": "statistics", "level": "mix"}
TENSOR = {"task": "tensor", "level": "mix", "step": [1]}
MD5 = {**STATISTICS, "statistics": {"summary_mode": "md5"}}
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "good": (STATISTICS, {}),
    "again": (STATISTICS, {}),
    "scale": (STATISTICS, {"fault": "scale"}),
    "nan": (STATISTICS, {"fault": "nan"}),
    "optimizer": (STATISTICS, {"fault": "optimizer"}),
    "good_md5": (MD5, {}),
    "again_md5": (MD5, {}),
    "scale_md5": (MD5, {"fault": "scale"}),
    "good_tensor": (TENSOR, {}),
    "scale_tensor": (TENSOR, {"fault": "scale"}),
    "good_rank": (STATISTICS, {"rank": 3}),
    "scale_rank": (STATISTICS, {"rank": 3, "fault": "scale"}),
    "structure": ({"task": "structure", "level": "mix"}, {}),
}


@dataclass(frozen=True)
class Answer:
    """The result of one call of the command line."""

    status: int
    out: str
    err: str

    @property
    def summary(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Map the name of each run to the root of its dump."""
    root = tmp_path_factory.mktemp("main_job")
    scripts = []
    for name, (config, plan) in RUNS.items():
        folder = root / name
        folder.mkdir()
        shutil.copy(SCRIPT, folder / "train.py")
        (folder / "config.json").write_text(json.dumps({"dump_path": "./dump", **config}))
        (folder / "plan.json").write_text(json.dumps(plan))
        scripts.append(folder / "train.py")
    statuses = run_scripts(scripts)
    failed = [script for script, status in statuses.items() if status != 0]
    assert not failed, "\n".join(log_of(script)[-2000:] for script in failed)
    return {script.parent.name: script.parent / "dump" for script in scripts}


def compare(target: Path, golden: Path, output: Path, *options: str) -> Answer:
    done = forked.run(["-m", "msprobe", "compare", "-tp", target, "-gp", golden, "-o", output, *options], cwd=ROOT)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def process_folder(root: Path, step: int) -> Path:
    (folder,) = (root / f"step{step}").iterdir()
    return folder


def test_the_first_wrong_operation_is_named(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["scale"], dumps["good"], tmp_path, "--json", "-", "--fail-on", "diverged")
    assert answer.status == 1, answer.err
    assert answer.summary["verdict"] == "diverged"
    first = answer.summary["first_divergence"]
    assert (first["step"], first["target"], first["kind"]) == (1, "Tensor.__mul__.0.forward", "argument")
    assert first["module"] == "middle.Middle"
    assert any("self.fc(x) * self.scale" in frame for frame in first["stack"])


def test_the_terminal_shows_the_culprit_and_where_it_is(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["scale"], dumps["good"], tmp_path)
    assert answer.status == 0, answer.err
    for shown in ("DIVERGED", "Tensor.__mul__.0.forward", "middle.Middle", "train.py"):
        assert shown in answer.out


def test_the_tables_lie_in_the_output_folder(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["scale"], dumps["good"], tmp_path, "--json", "-")
    tables = answer.summary["results"]
    assert len(tables) == 3, "one for each step"
    for table in tables:
        assert Path(table).resolve().parent == tmp_path.resolve()
        head = Path(table).read_text(encoding="utf-8-sig").splitlines()[0]
        assert head.startswith("NPU Name,Bench Name,NPU Dtype,Bench Dtype")


def test_a_rerun_is_the_same(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["again"], dumps["good"], tmp_path, "--json", "-", "--fail-on", "diverged")
    assert answer.status == 0, answer.err
    summary = answer.summary
    assert (summary["verdict"], summary["first_divergence"]) == ("same", None)
    counts = summary["counts"]
    assert counts["pass"] == counts["pairs"] > 50
    assert counts["target_only"] == counts["golden_only"] == 0


def test_the_summary_goes_to_a_file_too(dumps: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    answer = compare(dumps["again"], dumps["good"], tmp_path / "tables", "--json", str(file))
    assert answer.status == 0, answer.err
    assert json.loads(file.read_text())["verdict"] == "same"
    assert "SAME" in answer.out


def test_a_nan_is_named_where_it_begins(dumps: dict[str, Path], tmp_path: Path) -> None:
    first = compare(dumps["nan"], dumps["good"], tmp_path, "--json", "-").summary["first_divergence"]
    assert first["step"] == 1
    assert first["module"] == "last.Linear"


def test_a_wrong_learning_rate_is_the_optimizer(dumps: dict[str, Path], tmp_path: Path) -> None:
    first = compare(dumps["optimizer"], dumps["good"], tmp_path, "--json", "-").summary["first_divergence"]
    assert (first["step"], first["module"]) == (1, "optimizer")


def test_checksums_find_the_same_operation(dumps: dict[str, Path], tmp_path: Path) -> None:
    same = compare(dumps["again_md5"], dumps["good_md5"], tmp_path, "--json", "-").summary
    assert same["verdict"] == "same"
    first = compare(dumps["scale_md5"], dumps["good_md5"], tmp_path, "--json", "-").summary["first_divergence"]
    assert (first["step"], first["target"]) == (1, "Tensor.__mul__.0.forward")


def test_saved_tensors_find_the_same_operation(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["scale_tensor"], dumps["good_tensor"], tmp_path, "--json", "-")
    first = answer.summary["first_divergence"]
    assert (first["step"], first["target"]) == (1, "Tensor.__mul__.0.forward")
    (table,) = answer.summary["results"]
    assert "Cosine" in Path(table).read_text(encoding="utf-8-sig").splitlines()[0]


PLACES = {
    "dump root": lambda root: root,
    "step": lambda root: root / "step1",
    "rank": lambda root: root / "step1" / "rank3",
    "dump.json": lambda root: root / "step1" / "rank3" / "dump.json",
}


@pytest.mark.parametrize("place", PLACES)
def test_every_level_of_the_tree_can_be_given(dumps: dict[str, Path], tmp_path: Path, place: str) -> None:
    at = PLACES[place]
    answer = compare(at(dumps["scale_rank"]), at(dumps["good_rank"]), tmp_path, "--json", "-")
    first = answer.summary["first_divergence"]
    assert first["target"] == "Tensor.__mul__.0.forward"
    assert first["step"] in ((1,) if place in ("dump root", "step") else (1, None))


def test_a_process_folder_can_be_given(dumps: dict[str, Path], tmp_path: Path) -> None:
    target, golden = (process_folder(dumps[name], 1) for name in ("scale", "good"))
    first = compare(target, golden, tmp_path, "--json", "-").summary["first_divergence"]
    assert first["target"] == "Tensor.__mul__.0.forward"


def test_steps_before_the_fault_are_the_same(dumps: dict[str, Path], tmp_path: Path) -> None:
    summary = compare(dumps["scale"] / "step0", dumps["good"] / "step0", tmp_path, "--json", "-").summary
    assert summary["verdict"] == "same"


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_path_that_is_not_there_is_one_line(dumps: dict[str, Path], tmp_path: Path, side: str) -> None:
    missing = tmp_path / "nothing"
    pair = (missing, dumps["good"]) if side == "target" else (dumps["good"], missing)
    answer = compare(*pair, tmp_path)
    assert answer.status == 2
    assert len(answer.err.splitlines()) == 1
    assert str(missing) in answer.err


def test_two_tasks_that_share_nothing_are_not_comparable(dumps: dict[str, Path], tmp_path: Path) -> None:
    answer = compare(dumps["structure"], dumps["good"], tmp_path)
    assert answer.status == 3
    assert "Traceback" not in answer.err
    assert answer.err.splitlines()[-1].startswith("msprobe: error: ")
