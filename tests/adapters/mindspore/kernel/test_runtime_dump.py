"""Level L2 on the real runtime of MindSpore on a CPU. Every run is a process of its own: the request is read once."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.jobs.compare import compare
from tests.adapters.mindspore import graph_programs
from tests.rules.tree import ROOT

pytestmark = pytest.mark.mindspore


def run(job: str, *arguments: str) -> str:
    return graph_programs.run(job, *arguments).stdout


def train(folder: Path, level: str = "O0", weight: float = -1.0, **config: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps({"level": "L2", "dump_path": str(folder / "dump"), **config}))
    return run("train.py", str(path), level, str(weight))


def seen(output: str) -> Any:
    return json.loads(output.split("SEEN ", 1)[1].splitlines()[0])


def steps(folder: Path) -> dict[int | None, Dump]:
    return {place.step: load_dump(place) for place in find_dumps(folder)}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose whole path MindSpore accepts for its dumps."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def tensors(space: Path) -> tuple[Path, str]:
    return space / "golden", train(space / "golden", task="tensor", step=[0, 2])


def test_chosen_steps_are_imported_and_nothing_else_is_kept(tensors: tuple[Path, str]) -> None:
    folder, _ = tensors
    found = steps(folder / "dump")
    assert list(found) == [0, 2]
    for dump in found.values():
        names = list(dump.data)
        assert names[0].startswith("Kernel.Parameter.") and "Kernel.Parameter.fc1.weight.0.forward" in names
        assert sum("MatMul" in name and name.endswith("forward") for name in names) == 2
        assert any(name.endswith(".backward") for name in names)
    # MindSpore itself dumps every run of every graph: steps 0 and 2 remain, not step 1 and not the run outside
    assert len(list((folder / "dump").glob("rank_0/Net/*/*"))) == 2


def test_every_kernel_has_a_source_line_of_the_script(tensors: tuple[Path, str]) -> None:
    dump = steps(tensors[0] / "dump")[0]
    kernels = [name for name in dump.data if ".Parameter." not in name]
    assert kernels and all(any("train.py" in frame for frame in dump.stacks[name]) for name in kernels)


def test_results_and_gradients_are_those_of_a_run_without_the_tool(tensors: tuple[Path, str]) -> None:
    assert seen(tensors[1]) == seen(run("train.py", "", "O0", "-1.0"))


def test_compare_names_what_changed(tensors: tuple[Path, str], space: Path) -> None:
    train(space / "changed", weight=-0.5, task="tensor", step=[0, 2])
    summary = compare(space / "changed/dump", tensors[0] / "dump", output=space / "out").summary
    found = summary.first_divergence
    assert summary.verdict == "diverged" and found is not None
    assert (found.step, found.target) == (0, "Kernel.Parameter.fc1.weight.0.forward")


def test_compare_names_the_kernel_where_only_kernels_are_listed(space: Path) -> None:
    section = {"list": ["MatMul", "ReLU"], "data_mode": ["output"]}
    for name, weight in (("one", -1.0), ("other", -0.5)):
        train(space / name, weight=weight, task="tensor", step=[0], tensor=section)
    dump = steps(space / "one/dump")[0]
    assert all("MatMul" in name or "ReLU" in name for name in dump.data)
    found = compare(space / "other/dump", space / "one/dump").summary.first_divergence
    assert found is not None and ".MatMul.0.forward" in found.target


def test_statistics_are_computed_here_and_labelled(space: Path, tensors: tuple[Path, str]) -> None:
    section = {"summary_mode": ["max", "min", "mean", "l2norm", "nan count", "hash"]}
    train(space / "numbers", task="statistics", statistics=section, step=[0])
    root = space / "numbers/dump"
    assert json.loads((root / "kernel_kbyk_dump.json").read_text())["common_dump_settings"]["saved_data"] == "statistic"
    (dump,) = steps(root).values()
    assert json.loads(dump.place.document.read_text())["producer"] == "cpu-fallback"
    assert not list(root.rglob("*.npy"))
    (table,) = root.glob("rank_0/Net/*/*/statistic.csv")
    with table.open(newline="") as file:
        header = next(csv.reader(file))
    assert header[10:] == ["Max Value", "Min Value", "Avg Value", "L2Norm Value", "NaN Count", "SHA1"]
    same = steps(tensors[0] / "dump")[0]
    assert list(dump.data) == list(same.data)
    for name, body in dump.data.items():
        ours, theirs = body["output"][0], same.data[name]["output"][0]
        assert [ours[key] for key in ("Max", "Min", "Mean", "Norm")] == [
            theirs[key] for key in ("Max", "Min", "Mean", "Norm")
        ]
        assert len(ours["md5"]) == 40 and ours.get("nan_count", 0) == 0


def test_overflow_check_finds_the_kernels_and_says_who_found_them(space: Path) -> None:
    output = train(space / "overflow", level="O2", weight=float("nan"), task="overflow_check", step=[0])
    (dump,) = steps(space / "overflow/dump").values()
    assert "kernels with NaN or infinities" in output
    assert json.loads(dump.place.document.read_text())["producer"] == "cpu-fallback"
    kernels = [name for name in dump.data if ".Parameter." not in name]
    assert ".MatMul.0.forward" in kernels[0]
    request = json.loads((space / "overflow/dump/kernel_graph_overflow_check.json").read_text())
    assert request["common_dump_settings"]["op_debug_mode"] == 3


def test_unfit_configurations_and_a_late_request_are_refused(space: Path) -> None:
    lines = [line for line in run("late.py", str(space / "late")).splitlines() if line.startswith(("REF", "ACC"))]
    assert [line.split()[1] for line in lines] == ["ConfigError", "ConfigError", "ConfigError", "InterfaceError"]
    assert "summary_mode" in lines[0] and "L1 and mix need PYNATIVE_MODE" in lines[1] and "O2" in lines[2]
    assert "a graph has been compiled in this process already" in lines[3]


def test_functions_under_jit_of_a_dynamic_graph_are_dumped(space: Path) -> None:
    output = run("dynamic.py", str(space / "dynamic"))
    found = steps(space / "dynamic")
    assert list(found) == [0, 1]
    assert "dumps kernels of compiled code only" in output
    (cast,) = [body for name, body in found[0].data.items() if ".Cast." in name]
    assert cast["output"][0]["dtype"] == "BFloat16" and cast["output"][0]["Max"] == 2.71875


def test_a_run_that_never_ends_a_step_is_imported_by_iteration_at_exit(space: Path) -> None:
    run("unended.py", str(space / "unended"))
    found = steps(space / "unended")
    assert list(found) == [1, 2]
    assert all(len(dump.data) == len(found[1].data) > 0 for dump in found.values())
    requests = sorted(path.name for path in (space / "unended").glob("*.json"))
    assert requests == ["cpu_fallback_kernel_graph_dump.json", "kernel_graph_dump.json"]  # the mode of the first start


def test_an_earlier_dump_in_the_folder_is_let_alone(space: Path) -> None:
    train(space / "twice", task="tensor", step=[0])
    before = sorted((space / "twice/dump/rank_0").rglob("*.npy"))
    output = train(space / "twice", task="tensor", step=[1])
    assert "holds an earlier kernel dump" in output
    assert before and all(path.exists() for path in before)
    assert [place.step for place in find_dumps(space / "twice/dump", "all")] == [0, 1]


@pytest.mark.matrix("wide")
@pytest.mark.slow
def test_ranks_that_were_not_asked_for_leave_nothing(space: Path) -> None:
    command = [sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num=2", "--local_worker_num=2"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = space / "logs"
    command += [
        f"--master_port={port}",
        f"--log_dir={logs}",
        "--join=True",
        str(graph_programs.JOBS / "ranks.py"),
        str(space / "ranks"),
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    found = find_dumps(space / "ranks")
    assert [(place.step, place.label) for place in found] == [(0, "rank1"), (1, "rank1")]
    assert not list((space / "ranks/rank_0").rglob("*.npy"))
