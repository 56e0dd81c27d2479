"""A user's way from two kernel dumps to the values of the wrong kernel, by the commands of ``msprobe parse``."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli.main import run
from msprobe.core.tensor_files.npu_layouts import to_blocks
from tests.core.tensor_files.files import Tensor, acl_file, bfloat16

RUNS = 2
WRONG = (3, 17)


def kernels(folder: Path, begin: int, *, broken: bool) -> Path:
    """Write the kernels of a small network, each run twice; the golden run has other layouts and task numbers."""
    random = np.random.default_rng(7)
    folder.mkdir()
    for number in range(RUNS):
        x, w = (random.normal(size=size).astype(np.float32) for size in ((20, 40), (40, 24)))
        y = x @ w
        z = np.maximum(y, 0)
        if broken and number == 1:
            z[WRONG] = 99.0
        out = z * np.float32(0.5)
        blocks = Tensor(to_blocks(y, "FRACTAL_NZ"), 1, 29, y.shape) if broken else Tensor(y, 1)
        for place, (name, inputs, outputs) in enumerate((
            ("MatMulV2.layer1_matmul", [Tensor(x, 1), Tensor(w, 1)], [blocks]),
            ("Relu.layer1_relu", [blocks], [Tensor(z, 1)]),
            ("Mul.scale", [Tensor(z, 1)], [Tensor(bfloat16(out), 27)]),
        )):  # fmt: skip
            task, time = (place + 1 if broken else place + 40), begin + 10 * number + place
            (folder / f"{name}.{task}.3.{time}").write_bytes(acl_file(inputs, outputs))
    return folder


def test_the_wrong_kernel_is_named_and_its_values_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = kernels(tmp_path / "target", 1700000000000000, broken=True)
    golden = kernels(tmp_path / "golden", 1800000000000000, broken=False)

    assert run(["parse", "vc", "-m", str(target), "-g", str(golden), "-out", str(tmp_path / "result")]) == 1
    (table,) = (tmp_path / "result").glob("batch_compare_*.csv")
    with table.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == RUNS * (3 + 2 + 2)
    wrong = [(Path(row["target"]).name, row["tensor"]) for row in rows if row["Result"] != "pass"]
    relu, scale = "Relu.layer1_relu.2.3.1700000000000011", "Mul.scale.3.3.1700000000000012"
    assert sorted(wrong) == [(scale, "input.0"), (scale, "output.0"), (relu, "output.0")]
    assert f"error: {relu} output.0: differs by" in capsys.readouterr().out  # its input agrees: this kernel is wrong

    out = tmp_path / "values"
    assert run(["parse", "-d", str(target / relu), "-t", "npy", "-o", str(out)]) == 0
    before, after = (np.load(out / f"{relu}.{side}.0.npy") for side in ("input", "output"))
    assert before.shape == after.shape == (20, 24)
    apart = np.argwhere(after != np.maximum(before, 0))
    assert apart.tolist() == [list(WRONG)] and after[WRONG] == 99.0

    assert run(["parse", "-d", str(golden), "-t", "npy", "-o", str(tmp_path / "good")]) == 0
    capsys.readouterr()
    good = tmp_path / "good" / "Relu.layer1_relu.41.3.1800000000000011.output.0.npy"
    assert run(["parse", "cn", "-m", str(out / f"{relu}.output.0.npy"), "-g", str(good)]) == 1
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{list(WRONG)}: 99 against ")
