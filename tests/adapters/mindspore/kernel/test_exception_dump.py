"""exception_dump and overflow_check in a dynamic graph on a CPU. One process tries it all: the request is an
environment variable that no other test may find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.kernel_dumps.runtime_request import find_exception_request
from tests.adapters.mindspore import graph_programs
from tests.adapters.recorded import Recorded, read

FIRST = {
    "logarithm": "Functional.log.0.forward",
    "backward": "Functional.sqrt.0.backward",
    "wrong_shape": "Functional.matmul.0.forward",
    "missing_kernel": "MintFunctional.gelu.0.forward",
    "primitive": "Primitive.matmul.MatMul.0.forward",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exceptions")


@pytest.fixture(scope="module")
def said(folder: Path) -> Any:
    done = graph_programs.run("exceptions.py", folder)
    return {"output": done.stdout, **json.loads(done.stdout.split("SEEN ", 1)[1])}


def recorded(folder: Path, name: str) -> Recorded:
    return read(folder / name / "step0")


@pytest.mark.parametrize("name", ["healthy", "overflow", *FIRST])
def test_results_and_errors_are_those_without_the_tool(name: str, said: Any) -> None:
    without, within = said["said"][name]
    assert within == without


@pytest.mark.parametrize("name", FIRST)
def test_the_first_call_that_fails_is_the_only_record(name: str, said: Any, folder: Path) -> None:
    found = recorded(folder, name)
    assert found.names() == [FIRST[name]]
    assert "exceptions.py" in "".join(found.frames(FIRST[name]))
    assert f"{FIRST[name]} is the first" in said["output"]
    assert not (folder / name / "step1").exists()  # it fails there too, but one finding was asked for


@pytest.mark.parametrize("name", FIRST)
def test_it_is_labelled_as_a_record_of_api_calls(name: str, said: Any, folder: Path) -> None:
    header = recorded(folder, name).dump
    assert (header["task"], header["level"]) == ("exception_dump", "L2")
    assert (header["producer"], header["record_level"]) == ("cpu-fallback", "api")


@pytest.mark.parametrize("name", ["wrong_shape", "missing_kernel", "primitive"])
def test_a_call_that_raises_has_its_inputs_and_error(name: str, said: Any, folder: Path) -> None:
    found = recorded(folder, name)
    body = found.data[FIRST[name]]
    kind, text, no_cause = said["said"][name][1]
    assert (body["kind"], no_cause) == ("raised", True)
    assert body["error"].startswith(f"{kind}: {text}")
    assert "output" not in body
    saved = [np.load(found.folder / "dump_tensor_data" / node["data_name"]) for node in body["input_args"]]
    assert [list(array.shape) for array in saved] == [node["shape"] for node in body["input_args"]]


@pytest.mark.parametrize("name", ["logarithm", "backward"])
def test_a_call_that_leaves_the_finite_numbers_has_both_sides(name: str, said: Any, folder: Path) -> None:
    found = recorded(folder, name)
    body = found.data[FIRST[name]]
    assert body["kind"] == "non-finite output"
    given, made = body.get("input_args") or body["input"], body["output"]
    finite = [
        np.isfinite(np.load(found.folder / "dump_tensor_data" / side[0]["data_name"])).all() for side in (given, made)
    ]
    assert finite == [True, False]


def test_a_healthy_step_leaves_no_record(said: Any, folder: Path) -> None:
    assert recorded(folder, "healthy").names() == []
    assert "no watched call raised or made infinities or NaN out of finite inputs" in said["output"]
    assert recorded_step(folder, "healthy", 1) == ["Functional.log.0.forward"]  # the search went on


def recorded_step(folder: Path, name: str, step: int) -> list[str]:
    return read(folder / name / f"step{step}").names()


def test_the_runtime_is_asked_under_the_documented_name(said: Any, folder: Path) -> None:
    path = find_exception_request(folder / "primitive")
    assert path is not None and path.name == "kernel_graph_exception_dump.json"
    common = json.loads(path.read_text())["common_dump_settings"]
    assert (common["op_debug_mode"], common["path"]) == (4, str(folder / "primitive"))
    assert said["asked"][5] == str(path)  # primitive is the sixth of the job
    assert (said["asked"][6], said["left"]) == (None, None)  # closed, it leaves no request behind; overflow asks none


def test_overflow_check_records_the_guilty_call_and_says_how_it_was_found(said: Any, folder: Path) -> None:
    found = recorded(folder, "overflow")
    assert found.names() == ["Functional.log.0.forward"]
    assert found.dump["producer"] == "cpu-fallback"
    body = found.data["Functional.log.0.forward"]
    saved = np.load(found.folder / "dump_tensor_data" / body["output"][0]["data_name"])
    assert np.isneginf(saved).all()


def test_in_a_static_graph_the_first_kernel_that_fails_is_recorded(tmp_path: Path) -> None:
    done = graph_programs.run("static_exception.py", tmp_path)
    assert json.loads(done.stdout.split("SEEN ", 1)[1]) == {"infinite": [False, True, True], "variable": None}
    assert "no kernel made infinities or NaN in step 0" in done.stdout
    assert "Kernel.Default.Log.0.forward is the first (non-finite output): infinity in output.0" in done.stdout
    assert find_exception_request(tmp_path) is not None
    found = read(tmp_path / "step1")
    assert found.names() == ["Kernel.Default.Log.0.forward"]
    assert (found.dump["producer"], found.dump["record_level"]) == ("cpu-fallback", "kernel")
    assert found.data["Kernel.Default.Log.0.forward"]["kind"] == "non-finite output"
    assert "static_exception.py" in "".join(found.frames("Kernel.Default.Log.0.forward"))
    assert found.files() == [f"Kernel.Default.Log.0.forward.{side}.0.npy" for side in ("input", "output")]
    assert not (tmp_path / "step2").exists()  # one finding ends the collection
    assert not list((tmp_path / "rank_0").rglob("*.npy"))
