"""The scripts of the user's documentation, verbatim, and what the documentation says they leave.

Only what the documentation leaves open (the model, the data, "...") is filled in, and ``dump_path`` is relative.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.recorded import Recorded, read
from tests.end_to_end.fork_runner import log_of, run_scripts

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPTS = Path(__file__).resolve().parent / "scripts"
RUNS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "quick_start": (["quick_start"], {}),
    "quick_start_md5": (["quick_start"], {"statistics": {"summary_mode": "md5"}}),
    "basic_l0": (["basic_dump"], {"task": "tensor", "level": "L0", "tensor": {}}),
    "basic_l1": (["basic_dump"], {"task": "tensor", "level": "L1", "tensor": {}}),
    "basic_mix": (["basic_dump"], {"task": "tensor", "level": "mix", "tensor": {}}),
    "module_dump": (["module_dump"], {}),
    "cross_file": (["cross_file_train", "cross_file_module"], {}),
}
FILE_NAMES = {"cross_file_module": "module.py"}
STATISTICS = ["type", "dtype", "shape", "Max", "Min", "Mean", "Norm"]
FIELDS = [*STATISTICS, "Projection", "requires_grad"]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Map the name of each run to the root of its dump."""
    root = tmp_path_factory.mktemp("documented")
    scripts = {name: _lay_out(root / name, *RUNS[name]) for name in RUNS}
    statuses = run_scripts(list(scripts.values()))
    failed = [script for script, status in statuses.items() if status != 0]
    assert not failed, "\n".join(log_of(script)[-2000:] for script in failed)
    return {name: script.parent / "data_dump" for name, script in scripts.items()}


def _lay_out(folder: Path, scripts: list[str], changes: dict[str, Any]) -> Path:
    folder.mkdir()
    for name in scripts:
        shutil.copy(SCRIPTS / f"{name}.py.txt", folder / FILE_NAMES.get(name, f"{name}.py"))
    config = json.loads((SCRIPTS / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder / f"{scripts[0]}.py"


def _only(root: Path, step: int = 0) -> Recorded:
    return read(root / f"step{step}")


def test_quick_start_layout(left: dict[str, Path]) -> None:
    root = left["quick_start"]
    assert [path.name for path in root.iterdir()] == ["step0"]
    (process,) = (root / "step0").iterdir()
    assert re.fullmatch(r"proc\d+", process.name)
    assert sorted(path.name for path in process.iterdir()) == [
        "construct.json",
        "dump.json",
        "source.json",
        "stack.json",
    ]


def test_quick_start_says_where_the_dump_is(left: dict[str, Path]) -> None:
    log = log_of(left["quick_start"].parent / "quick_start.py")
    assert re.search(r"dump\.json is at .*data_dump/step0", log)


def test_quick_start_records_the_apis(left: dict[str, Path]) -> None:
    recorded = _only(left["quick_start"])
    assert list(recorded.dump)[:4] == ["task", "level", "framework", "dump_data_dir"]
    assert {"written_by", "run", "end"} < recorded.dump.keys()
    assert list(recorded.dump)[-1] == "data"
    assert recorded.names() == [
        "Functional.linear.0.forward",
        "Functional.relu.0.forward",
        "Tensor.sum.0.forward",
        "Tensor.sum.0.backward",
        "Functional.relu.0.backward",
        "Functional.linear.0.backward",
    ]
    relu = recorded.data["Functional.relu.0.forward"]
    assert list(relu) == ["input_args", "input_kwargs", "output"]
    assert list(relu["output"][0]) == FIELDS
    assert relu["output"][0]["shape"] == [10, 4]
    assert recorded.construct == {}, "at level L1 the hierarchy stays empty"
    assert any("r1 = F.relu(x1)" in frame for frame in recorded.frames("Functional.relu.0.forward"))


def test_md5_is_a_crc32_beside_the_statistics(left: dict[str, Path]) -> None:
    node = _only(left["quick_start_md5"]).data["Functional.relu.0.forward"]["output"][0]
    assert list(node) == [*STATISTICS, "requires_grad", "md5"]
    assert re.fullmatch(r"[0-9a-f]{8}", node["md5"])


@pytest.mark.parametrize("run", ["basic_l0", "basic_l1", "basic_mix"])
def test_basic_dump_layout(left: dict[str, Path], run: str) -> None:
    assert sorted(path.name for path in left[run].iterdir()) == ["step0", "step1"]
    for step in (0, 1):
        recorded = _only(left[run], step)
        names = sorted(path.name for path in recorded.folder.iterdir())
        assert names == ["construct.json", "dump.json", "dump_tensor_data", "source.json", "stack.json"]
        assert recorded.dump["dump_data_dir"] == str(recorded.folder / "dump_tensor_data")
        assert (recorded.dump["task"], recorded.dump["framework"]) == ("tensor", "pytorch")
        assert sorted(_data_names(recorded.data)) == recorded.files()


@pytest.mark.parametrize("run", ["basic_l0", "basic_mix"])
def test_module_entries_as_documented(left: dict[str, Path], run: str) -> None:
    data = _only(left[run]).data
    forward = data["Module.conv2.Conv2d.forward.0"]
    assert list(forward) == ["input_args", "input_kwargs", "training", "autograd", "output", "parameters"]
    assert list(forward["parameters"]) == ["weight", "bias"]
    assert list(forward["output"][0]) == [*STATISTICS, "requires_grad", "data_name"]
    assert set(data["Module.conv2.Conv2d.parameters_grad.0"]) == {"weight", "bias"}
    backward = data["Module.conv2.Conv2d.backward.0"]
    assert list(backward) == ["input", "output"]
    assert backward["input"][0]["shape"] == forward["output"][0]["shape"]
    assert backward["output"][0]["shape"] == forward["input_args"][0]["shape"]
    assert backward["output"][0]["requires_grad"] is False
    assert set(_data_names(data)) >= {
        "Module.conv2.Conv2d.forward.0.input.0.pt",
        "Module.conv2.Conv2d.forward.0.output.0.pt",
        "Module.conv2.Conv2d.forward.0.parameters.weight.pt",
        "Module.conv2.Conv2d.parameters_grad.0.bias.pt",
        "Module.conv2.Conv2d.backward.0.input.0.pt",
    }


@pytest.mark.parametrize("run", ["basic_l1", "basic_mix"])
def test_api_entries_as_documented(left: dict[str, Path], run: str) -> None:
    data = _only(left[run]).data
    assert list(data["Functional.relu.0.forward"]) == ["input_args", "input_kwargs", "output"]
    backward = data["Functional.relu.0.backward"]
    assert backward["input"][0]["data_name"] == "Functional.relu.0.backward.input.0.pt"
    assert backward["output"][0]["data_name"] == "Functional.relu.0.backward.output.0.pt"


def test_the_hierarchy_by_level(left: dict[str, Path]) -> None:
    assert _only(left["basic_l1"]).construct == {}
    l0, mix = _only(left["basic_l0"]).construct, _only(left["basic_mix"]).construct
    assert l0 is not None and mix is not None
    assert all(name.startswith("Module.") for name in l0)
    assert mix["Functional.relu.0.forward"] == "Module.act.ReLU.forward.0"
    assert mix["optimizer"] is None


def test_mix_is_l0_and_l1_together(left: dict[str, Path]) -> None:
    l0, l1, mix = (set(_only(left[f"basic_{level}"]).data) for level in ("l0", "l1", "mix"))
    assert mix == l0 | l1


def test_module_dump_hides_what_is_inside(left: dict[str, Path]) -> None:
    recorded = _only(left["module_dump"])
    assert recorded.names("forward") == [
        "Functional.gelu.0.forward",
        "Module.MyModuleOP.ModuleOP.forward.0",
        "Tensor.sum.0.forward",
    ]


def test_start_and_stop_in_another_file(left: dict[str, Path]) -> None:
    recorded = _only(left["cross_file"])
    assert recorded.names() == ["Functional.linear.0.forward", "Functional.linear.0.backward"]
    assert any("module.py" in frame for frame in recorded.frames("Functional.linear.0.forward"))


def _data_names(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["data_name"]] if "data_name" in node else []
        return own + [name for value in node.values() for name in _data_names(value)]
    return [name for value in node for name in _data_names(value)] if isinstance(node, list) else []
