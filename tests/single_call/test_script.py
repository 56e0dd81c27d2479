"""Scripts of recorded calls: short, standalone, right for right kernels, wrong for planted ones, no foreign code."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from msprobe.cli.main import run
from msprobe.core.errors import InterfaceError
from msprobe.single_call.request import read_request
from tests import forked
from tests.precheck.planted_kernels import PlantedKernel
from tests.precheck.programs import record
from tests.single_call.running import exit_status

pytestmark = pytest.mark.torch

CALLS = (
    "Functional.linear.0", "Functional.gelu.0", "Functional.embedding.0", "Functional.dropout.0", "Tensor.topk.0",
    "Functional.scaled_dot_product_attention.0", "Torch.exp.0", "Functional.layer_norm.0", "VF.lstm.0",
    "Functional.cross_entropy.0", "Tensor.__setitem__.0", "Tensor.mul_.0", "Tensor.lerp_.0",
)  # fmt: skip


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("run"), "block", torch.float32, "tensor")


def script(dump: Path, folder: Path, name: str, *words: str) -> Path:
    assert run(["op_generate", str(dump), "--api", name, "-o", str(folder), *words]) == 0
    (path,) = folder.glob("*.py")
    return path


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("words", [(), ("--draw",)])
def test_a_script_of_a_right_call_passes(dump: Path, tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    backward = ("--backward",) if f"{name}.backward" in json.loads(dump.read_text())["data"] else ()
    path = script(dump, tmp_path, name, *words, *backward)
    text = path.read_text()
    assert "msprobe" not in text.replace("Made by msprobe", "")
    lines = [line for line in text.splitlines() if line.strip()]
    assert 30 <= len(lines) <= 93 + len(words) * (4 + text.count("drawn(random"))
    assert max(len(line) for line in lines if "drawn(random" not in line and "    args = " not in line) <= 120
    assert (path.with_suffix(".npz").exists()) == (not words)
    status, said = exit_status(path)
    assert status == 0, said
    assert f"{name}.{'backward' if backward else 'forward'} result 0" in said


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    ("operator", "kind", "name", "backward"),
    [
        ("exp", "scale", "Torch.exp.0", False),
        ("exp", "one element", "Torch.exp.0", False),
        ("gelu", "sign", "Functional.gelu.0", False),
        ("gelu_backward", "scale", "Functional.gelu.0", True),
        ("addmm", "NaN", "Functional.linear.0", False),
        ("_softmax", "coarse", "Functional.softmax.0", False),
    ],
)
@pytest.mark.parametrize("words", [(), ("--draw",)])
def test_a_script_of_a_wrong_kernel_fails(
    tmp_path: Path, operator: str, kind: str, name: str, backward: bool, words: tuple[str, ...]
) -> None:
    document = record(tmp_path / "run", "many functions", torch.float32, "tensor")
    path = script(document, tmp_path / "out", name, *words, *(["--backward"] if backward else []))
    assert exit_status(path)[0] == 0
    with PlantedKernel(operator, kind).planted():
        status, said = exit_status(path)
    assert status == 1
    assert "WRONG" in said


@pytest.mark.parametrize("words", [(), ("--pytest",)])
@pytest.mark.parametrize(("dtype", "status"), [(torch.float32, 2), (torch.bfloat16, 0)])
def test_a_function_without_a_kernel_of_float64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, status: int, words: tuple[str, ...]
) -> None:
    """In float32 it can be judged where the call has a lower precision, and else it says that nothing tells."""
    path = script(record(tmp_path / "run", "many functions", dtype, "tensor"), tmp_path, "Torch.exp.0", *words)
    original = torch.exp

    def without_float64(given: torch.Tensor) -> torch.Tensor:
        if given.dtype == torch.float64:
            raise RuntimeError("not implemented for 'Double'")
        return original(given)

    monkeypatch.setattr(torch, "exp", without_float64)
    text = path.read_text()
    found = exit_status(path) if not words else (2 if "pytest.skip" in text and "import pytest\n" in text else 0, text)
    assert found[0] == (status if not words else 2)
    if not words:
        assert ("not judged: the CPU has no kernel of a higher precision to compare with" in found[1]) == (status == 2)


def test_a_script_runs_alone(dump: Path, tmp_path: Path) -> None:
    path = script(dump, tmp_path, "Functional.linear.0", "--backward")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [forked.python(), str(path), "cpu"]
    done = subprocess.run(words, capture_output=True, text=True, env=clean, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == 4


def test_a_script_for_pytest(dump: Path, tmp_path: Path) -> None:
    path = script(dump, tmp_path, "Functional.gelu.0", "--pytest")
    assert path.name == "test_Functional_gelu_0_forward.py"
    names = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
    assert "test_call" in names


def test_the_documented_configuration(dump: Path, tmp_path: Path) -> None:
    config, extract = tmp_path / "config_op.json", tmp_path / "gelu.json"
    content = {
        "dump_json_path": str(dump), "api_name": "Functional.gelu.0", "extract_api_path": str(extract),
        "propagation": "backward", "data_mode": "random_data", "random_seed": 7, "iter_times": 3,
    }  # fmt: skip
    config.write_text(json.dumps(content))
    assert run(["-f", "pytorch", "op_generate", "-i", str(config), "-o", str(tmp_path / "first")]) == 0
    names = {"dump_data_dir", "Functional.gelu.0.forward", "Functional.gelu.0.backward"}
    assert json.loads(extract.read_text()).keys() == names
    config.write_text(json.dumps({**content, "dump_json_path": "", "api_name": ""}))
    assert run(["op_generate", "-i", str(config), "-o", str(tmp_path / "second")]) == 0
    first, second = ((tmp_path / name / "Functional.gelu.0.backward.py") for name in ("first", "second"))
    assert "range(7, 10)" in first.read_text()
    assert exit_status(first)[0] == exit_status(second)[0] == 0
    assert exit_status(first)[1].count("result 0") == 3


HOSTILE = '"""\nimport os; os.system("touch OWNED")\n"""'


@pytest.mark.parametrize(
    "change",
    [
        {"type": "str", "value": HOSTILE},
        {"type": "str", "value": "'); __import__('os').system('touch OWNED'); ('"},
        {"type": "torch.dtype", "value": "torch.float32); import os; os.system('touch OWNED'"},
        {"type": "torch.memory_format", "value": "torch.x; import os"},
        {HOSTILE: {"type": "int", "value": 3}},
        {"type": "float", "value": "__import__('os')"},
    ],
)
def test_a_hostile_dump_puts_no_code_into_a_script(tmp_path: Path, change: Any) -> None:
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    data = {"Torch.exp.0.forward": {"input_args": [tensor, change], "input_kwargs": {"name": change}, "output": []}}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}))
    if run(["op_generate", str(dump), "--api", "Torch.exp.0", "-o", str(tmp_path)]) == 0:
        (path,) = tmp_path.glob("*.py")
        body = ast.parse(path.read_text()).body
        assert not any(alias.name == "os" for node in body if isinstance(node, ast.Import) for alias in node.names)
        functions = [node.func for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.Call)]
        assert "system" not in {each.attr for each in functions if isinstance(each, ast.Attribute)}
        exit_status(path)
    assert not (tmp_path / "OWNED").exists()
    assert not Path("OWNED").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--api", "Functional.linaer.0"],
            "named Functional.linaer.0; did you mean Functional.linear.0?",
        ),
        (["--api", "Tensor.__setitem__.0", "--backward"], "Tensor.__setitem__.0: the dump has no backward record"),
        ([], "Missing option '--api'; try: msprobe op_generate"),
    ],
)
def test_what_cannot_be_a_script_is_said_in_one_line(
    dump: Path, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["op_generate", str(dump), "-o", str(tmp_path), *words]) == 2
    line = capsys.readouterr().err.strip()
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize("key", ["dump_json_path", "extract_api_path"])
@pytest.mark.parametrize("name", ["half \ud800", "null \x00"])
def test_a_path_that_no_file_can_have_is_refused_in_one_line(key: str, name: str, dump: Path, tmp_path: Path) -> None:
    config = tmp_path / "config_op.json"
    content = {"dump_json_path": str(dump), "api_name": "Functional.gelu.0", key: str(tmp_path / name)}
    config.write_text(json.dumps(content))
    with pytest.raises(InterfaceError, match=f"{key}: .*must not contain"):
        read_request(config)
