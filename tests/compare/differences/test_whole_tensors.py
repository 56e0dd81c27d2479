"""Tensors multiplied by matrices before they are compared: a rotated run against the plain one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from msprobe.core.errors import ReadError
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 8)).astype(np.float32)
RIGHT, LEFT, NARROW = (RANDOM.normal(size=size).astype(np.float32) for size in ((8, 8), (4, 4), (8, 3)))
NAME = "Torch.abs.0.forward"
FILE = f"{NAME}.input.0.npy"


def run(folder: Path, values: Any, task: str = "tensor") -> Path:
    values = np.asarray(values, np.float32)
    statistics = {"Max": values.max(), "Min": values.min(), "Mean": values.mean(), "Norm": np.linalg.norm(values)}
    told = {name: float(value) for name, value in statistics.items()}
    leaf = tensor(shape=values.shape, data_name=FILE) | told
    write(folder, {NAME: call([leaf], [])}, task=task)
    (folder / "dump_tensor_data").mkdir(exist_ok=True)
    np.save(folder / "dump_tensor_data" / FILE, values)
    return folder


@pytest.fixture
def matrices(tmp_path: Path) -> dict[str, str]:
    for name, matrix in (("right", RIGHT), ("left", LEFT), ("narrow", NARROW), ("flat", X[0])):
        np.save(tmp_path / f"{name}.npy", matrix)
    return {name: str(tmp_path / f"{name}.npy") for name in ("right", "left", "narrow", "flat", "absent")}


def both(matrices: dict[str, str]) -> dict[str, Any]:
    ours = {
        "left_target_tensor_map": {matrices["left"]: [FILE]},
        "right_target_tensor_map": {matrices["right"]: [FILE]},
    }
    return {"left_right_matmul": ours}


def one(section: str, side: str, matrix: str, name: str = FILE) -> dict[str, Any]:
    return {section: {f"{side}_tensor_map": {matrix: [name]}}}


CASES: dict[str, Any] = {
    "right": (X, X @ RIGHT, lambda files: one("right_matmul", "target", files["right"])),
    "left": (X, LEFT @ X, lambda files: one("left_matmul", "target", files["left"])),
    "both": (X, LEFT @ X @ RIGHT, both),
    "golden": (X @ RIGHT, X, lambda files: one("right_matmul", "golden", files["right"])),
    "other-shape": (X, X @ NARROW, lambda files: one("right_matmul", "target", files["narrow"])),
    "axis-of-one": (X[None], LEFT @ X, lambda files: one("left_matmul", "target", files["left"])),
}


@pytest.mark.parametrize("case", list(CASES))
def test_the_product_is_compared(case: str, matrices: dict[str, str], tmp_path: Path) -> None:
    target, golden, config = CASES[case]
    sides = run(tmp_path / "t", target), run(tmp_path / "g", golden)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config(matrices)))
    assert compare(*sides).verdict == "diverged"
    result = compare(*sides, config=path)
    assert (result.verdict, result.summary.counts.passed, result.summary.reason) == ("same", 1, "")
    wrong = run(tmp_path / "w", np.asarray(golden) * np.float32(1.01))
    assert compare(sides[0], wrong, config=path).verdict == "diverged"


def test_a_product_that_does_not_fit_is_never_a_pass(matrices: dict[str, str], tmp_path: Path) -> None:
    dump = run(tmp_path / "t", X)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(one("right_matmul", "target", matrices["left"])))
    result = compare(dump, dump, config=config, output=tmp_path / "out")
    assert result.verdict == "not_comparable"
    assert "no product tensor @ matrix" in next((tmp_path / "out").glob("*.csv")).read_text()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param({"rigth_matmul": {}}, "unknown section 'rigth_matmul'", id="section"),
        pytest.param(
            {"right_matmul": {"left_target_tensor_map": {}}}, "unknown key 'left_target_tensor_map'", id="key"
        ),
        pytest.param({"right_matmul": {"target_tensor_map": {"absent.npy": [FILE]}}}, "missing", id="no-matrix"),
        pytest.param({"right_matmul": {"target_tensor_map": {"flat.npy": [FILE]}}}, "holds no matrix", id="vector"),
    ],
)
@pytest.mark.usefixtures("matrices")
def test_a_file_that_says_nothing_clear_is_refused(
    content: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    dump = run(tmp_path / "t", X)
    with pytest.raises(ReadError, match=r"config\.yaml, line [1234]: ") as error:
        compare(dump, dump, config=path)
    assert told in str(error.value)


def test_names_that_no_tensor_has_are_told(matrices: dict[str, str], tmp_path: Path) -> None:
    dump = run(tmp_path / "t", X)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(one("right_matmul", "golden", matrices["right"], "nothing.pt")))
    for executor in ("serial", "processes:2"):
        result = compare(dump, dump, config=config, executor=executor)
        assert result.summary.reason == "1 tensors that --config names are in no dump: nothing.pt"


def test_statistics_cannot_be_multiplied(matrices: dict[str, str], tmp_path: Path) -> None:
    dump = run(tmp_path / "t", X, task="statistics")
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(one("right_matmul", "target", matrices["right"])))
    result = compare(dump, dump, config=config)
    assert result.verdict == "not_comparable" and "not of the task tensor" in result.summary.reason
