"""Level L0 inside compiled graphs, on a real CPU: every mode is a process of its own, which leaves its dumps here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters.mindspore import graph_programs
from tests.adapters.recorded import Recorded, read
from tests.matrices import matrix_params

pytestmark = pytest.mark.mindspore
MODES = ("graph-O0", "graph-O1", "graph-O2", "jit-O0", "jit-O1")
SAMPLED = matrix_params("wide", MODES, {"jit-O0"})  # test_static_order has a graph
ACT, SPLIT, JOIN = "Cell.inner.act.ReLU", "Cell.inner.split.Split", "Cell.inner.join.Join"
FORWARD = [
    *("Cell.fc.Dense.forward.0", f"{ACT}.forward.0", f"{SPLIT}.forward.0", f"{JOIN}.forward.0", f"{ACT}.forward.1"),
    "Cell.inner.Inner.forward.0",
]
BACKWARD = [
    *(f"{ACT}.backward.1", f"{JOIN}.backward.0", f"{SPLIT}.backward.0", f"{ACT}.backward.0"),
    *("Cell.inner.Inner.backward.0", "Cell.fc.Dense.backward.0"),
]
GRADIENTS = ["Cell.fc.Dense.parameters_grad.0", f"{JOIN}.parameters_grad.0"]


@dataclass(frozen=True)
class Job:
    """What one process said and where it left its dumps."""

    folder: Path
    said: Any

    def read(self, name: str, step: int = 0) -> Recorded:
        return read(self.folder / name / f"step{step}")


class Jobs:
    """Runs each mode when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._done: dict[str, Job] = {}

    def __call__(self, mode: str) -> Job:
        if mode not in self._done:
            folder = self._root / mode
            folder.mkdir()
            done = graph_programs.run("cells.py", folder, *mode.split("-"))
            said = json.loads(done.stdout.split("SEEN ", 1)[1].splitlines()[0])
            self._done[mode] = Job(folder, said)
        return self._done[mode]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(tmp_path_factory.mktemp("cells"))


@pytest.mark.parametrize("mode", SAMPLED)
def test_results_and_gradients_are_those_of_an_untapped_run(mode: str, jobs: Jobs) -> None:
    results = jobs(mode).said["results"]
    (plain,) = results["before"]
    assert len(plain) == 5  # the loss, the gradient of the input, those of three parameters
    assert all(step == plain for steps in results.values() for step in steps)


@pytest.mark.parametrize("mode", SAMPLED)
def test_no_tap_is_left(mode: str, jobs: Jobs) -> None:
    assert jobs(mode).said["left"] == []


@pytest.mark.parametrize("mode", SAMPLED)
def test_records_stand_in_the_order_in_which_cells_run(mode: str, jobs: Jobs) -> None:
    found = jobs(mode).read("statistics")
    names = found.names()
    calls = [name for name in names if "parameters_grad" not in name]
    assert calls == FORWARD + BACKWARD
    assert sorted(set(names) - set(calls)) == GRADIENTS
    assert found.construct is not None
    assert found.construct[f"{ACT}.forward.1"] == "Cell.inner.Inner.forward.0"
    assert found.construct[f"{JOIN}.backward.0"] == "Cell.inner.Inner.backward.0"
    assert found.construct["Cell.inner.Inner.forward.0"] is None


@pytest.mark.parametrize("mode", SAMPLED)
def test_numbers_are_those_of_the_values(mode: str, jobs: Jobs) -> None:
    job = jobs(mode)
    data = job.read("statistics").data
    dense = data["Cell.fc.Dense.forward.0"]
    weight = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) / 4
    x = (np.arange(8, dtype=np.float32).reshape(2, 4) - 3) / 2
    assert dense["output"][0]["Max"] == (x @ weight.T + 1).max()
    assert dense["parameters"]["weight"]["Norm"] == pytest.approx(np.linalg.norm(weight), rel=1e-6)
    gradient = np.frombuffer(bytes.fromhex(job.said["results"]["before"][0][1]), np.float32)
    assert data["Cell.fc.Dense.backward.0"]["output"][0]["Max"] == gradient.max()
    bias = np.frombuffer(bytes.fromhex(job.said["results"]["before"][0][3]), np.float32)
    assert data["Cell.fc.Dense.parameters_grad.0"]["bias"][0]["Max"] == bias.max()


@pytest.mark.parametrize("mode", matrix_params("wide", ["graph-O0", "jit-O0"], {"jit-O0"}))
def test_containers_and_tensors_of_every_kind(mode: str, jobs: Jobs) -> None:
    data = jobs(mode).read("statistics").data
    split, join = data[f"{SPLIT}.forward.0"], data[f"{JOIN}.forward.0"]
    kinds = [(node["dtype"], node["shape"]) for node in split["input_args"]]
    assert kinds == [("Float32", [2, 3]), ("Int32", [4])]
    assert [node["shape"] for node in split["output"]] == [[2, 3], []]  # the third is used by nobody
    assert [node["shape"] for node in join["input_args"][0]] == [[2, 3], []]
    assert (join["parameters"]["scale"]["dtype"], join["parameters"]["scale"]["shape"]) == ("Float32", [])
    assert data[f"{JOIN}.parameters_grad.0"]["scale"][0]["dtype"] == "Float32"


@pytest.mark.matrix("wide")
def test_a_list_of_statistics_leaves_out_the_others(jobs: Jobs) -> None:
    found = jobs("graph-O0").read("chosen")
    assert found.names() == FORWARD
    output = found.data["Cell.fc.Dense.forward.0"]["output"][0]
    assert set(output) == {"type", "dtype", "shape", "Max", "Mean"}


def test_step_list_and_data_mode(jobs: Jobs) -> None:
    job = jobs("jit-O0")
    assert not (job.folder / "filtered/step0").exists()
    found = job.read("filtered", step=1)
    assert found.names() == [f"{SPLIT}.backward.0"]


def test_scope_checksums_and_tensor_list(jobs: Jobs) -> None:
    found = jobs("jit-O0").read("scope")
    assert found.names() == [f"{SPLIT}.forward.0", f"{JOIN}.forward.0"]
    assert len(found.data[f"{JOIN}.forward.0"]["output"][0]["md5"]) == 8
    assert found.files() == [f"{SPLIT}.forward.0.{part}.npy" for part in ("input.0", "input.1", "output.0", "output.1")]


def test_another_rank_leaves_nothing(jobs: Jobs) -> None:
    assert not (jobs("jit-O0").folder / "rank/step0").exists()


def test_tensor_files_are_the_values(jobs: Jobs) -> None:
    found = jobs("jit-O0").read("inner")
    assert {name.split(".")[1] for name in found.names()} == {"act", "split", "join"}  # the model itself has no name
    (node,) = [node for node in found.data["Cell.split.Split.forward.0"]["output"] if node["shape"]]
    saved = np.load(found.folder / "dump_tensor_data" / node["data_name"])
    assert node["data_name"] == "Cell.split.Split.forward.0.output.0.npy"
    assert (saved.max(), saved.shape) == (np.float32(node["Max"]), (2, 3))
    named = {name for name in found.files() if ".value" in name}
    assert not named  # provisional names are gone


def test_asynchronous_files_have_their_names_too(jobs: Jobs) -> None:
    found = jobs("jit-O0").read("async")
    assert [name for name in found.names() if "parameters_grad" not in name] == BACKWARD
    node = found.data["Cell.fc.Dense.backward.0"]["output"][0]
    saved = np.load(found.folder / "dump_tensor_data" / node["data_name"])
    gradient = np.frombuffer(bytes.fromhex(jobs("jit-O0").said["results"]["before"][0][1]), np.float32)
    assert saved.tobytes() == gradient.tobytes()
