"""Two frameworks without any mapping: paths, parameter names, dtypes and function names meet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import Entry, call, gradient, module, tensor, write

torch = pytest.importorskip("torch")


def _ms(leaf: Entry) -> Entry:
    """The tensor as MindSpore records it."""
    name = {"torch.float32": "Float32", "torch.bfloat16": "BFloat16"}[leaf["dtype"]]
    return {key: value for key, value in leaf.items() if key != "requires_grad"} | {
        "type": "mindspore.Tensor",
        "dtype": name,
    }


def _runs(folder: Path, scale: float = 1.0, dtype: str = "float32") -> tuple[Path, Path]:
    x, y, w = (tensor(s, dtype=dtype) for s in (1.0, 2.0, 3.0))
    z = tensor(2.0 * scale, dtype=dtype)
    golden = {
        "Torch.abs.0.forward": call([x], [y]),
        "Module.net.norm.LayerNorm.forward.0": module([x], [y], weight=w, bias=w),
        "Module.net.norm.LayerNorm.backward.0": gradient([y], [x]),
        "Module.net.norm.LayerNorm.parameters_grad.0": {"weight": [w], "bias": [w]},
    }
    x, y, w, z = map(_ms, (x, y, w, z))
    target = {
        "Functional.abs.0.forward": call([x], [y]),
        "Cell.net.norm.RMSNorm.forward.0": module([x], [z], gamma=w, beta=w),
        "Cell.net.norm.RMSNorm.backward.0": gradient([y], [x]),
        "Cell.net.norm.RMSNorm.parameters_grad.0": {"gamma": [w], "beta": [w]},
    }
    return _written(folder / "ms", target, "mindspore"), _written(folder / "pt", golden, "pytorch")


def _written(folder: Path, data: dict[str, Any], framework: str, task: str = "statistics") -> Path:
    write(folder, data, task=task)
    document = folder / "dump.json"
    document.write_text(document.read_text().replace('"framework": "pytorch"', f'"framework": "{framework}"'))
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True], ids=["ms-pt", "pt-ms"])
def test_the_same_model_is_the_same(tmp_path: Path, dtype: str, reverse: bool) -> None:
    sides = _runs(tmp_path, dtype=dtype)
    summary = compare(*(reversed(sides) if reverse else sides)).summary
    assert summary.verdict == "same"
    assert (summary.counts.passed, summary.counts.target_only, summary.counts.golden_only) == (10, 0, 0)


def test_a_fault_is_named(tmp_path: Path) -> None:
    found = compare(*_runs(tmp_path, scale=1.5)).summary.first_divergence
    assert found is not None and found.target == "Cell.net.norm.RMSNorm.forward.0"
    assert found.golden == "Module.net.norm.LayerNorm.forward.0" and found.slot == "output.0"


def test_another_dtype_of_the_whole_run_is_another_precision(tmp_path: Path) -> None:
    target, _ = _runs(tmp_path / "a")
    _, golden = _runs(tmp_path / "b", dtype="bfloat16")
    summary = compare(target, golden).summary
    assert summary.verdict == "same" and "compute in two precisions" in summary.reason


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_real_tensors_of_both_formats(tmp_path: Path, dtype: str) -> None:
    """A .pt against the .npy that MindSpore writes; bfloat16 lies there as float32."""
    values = torch.randn(4, 8).to(getattr(torch, dtype))
    x, y = tensor(dtype=dtype), tensor(2.0, dtype=dtype)
    names = {"pt": "Torch.abs.0.forward.{}.0.pt", "ms": "Functional.abs.0.forward.{}.0.npy"}
    folders = {}
    for side, name in names.items():
        leaves = [leaf | {"data_name": name.format(slot)} for leaf, slot in ((x, "input"), (y, "output"))]
        leaves = [_ms(leaf) for leaf in leaves] if side == "ms" else leaves
        entry = name.partition(".{}")[0]
        framework = "mindspore" if side == "ms" else "pytorch"
        folders[side] = _written(tmp_path / side, {entry: call(leaves[:1], leaves[1:])}, framework, "tensor")
        data = folders[side] / "dump_tensor_data"
        data.mkdir()
        for leaf, tensor_values in zip(leaves, (values, values * 2), strict=True):
            if side == "pt":
                torch.save(tensor_values, data / leaf["data_name"])
            else:
                np.save(data / leaf["data_name"], tensor_values.float().numpy())
    result = compare(folders["ms"], folders["pt"])
    assert result.verdict == "same" and result.summary.counts.passed == 2
    errors = [row.cells[result_column(result)] for row in result.rows()]
    assert errors == [0.0, 0.0]


def result_column(result: Any) -> int:
    return next(result.comparisons()).columns.index("MaxAbsErr")


def _made_by(folder: Path, framework: str | None) -> Path:
    path = write(folder, {"Torch.abs.0.forward": call([tensor()], [tensor()])})
    document = json.loads((path / "dump.json").read_text()) | {"framework": framework}
    (path / "dump.json").write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(("target", "golden"), [("jax", "pytorch"), ("pytorch", "jax"), ("jax", "jax")])
def test_a_framework_that_nobody_knows_is_told(target: str, golden: str, tmp_path: Path) -> None:
    found = compare(_made_by(tmp_path / "t", target), _made_by(tmp_path / "g", golden)).summary
    assert found.reason.count("was made by 'jax', which this version does not know") == (target, golden).count("jax")


@pytest.mark.parametrize("framework", ["pytorch", "PyTorch", "mindspore", "mindtorch", None], ids=str)
def test_known_frameworks_are_not_worth_a_word(framework: str | None, tmp_path: Path) -> None:
    found = compare(_made_by(tmp_path / "t", framework), _made_by(tmp_path / "g", framework)).summary
    assert "does not know" not in found.reason
