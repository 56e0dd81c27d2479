"""A part of the tensors of one side is compared with the whole of the other side, or with a part of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.inputs.slices import AxisSlice, TensorSlices
from msprobe.core.errors import MsprobeException
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.jobs.compare import compare
from tests.compare.dumps import Entry, call, module, number, write
from tests.compare.dumps import tensor as described

BATCH = np.random.default_rng(0).standard_normal((8, 32, 4)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
VIEWED = {(8, 32, 4): [8, 32, 2, 2], (1, 17, 4): [1, 17, 2, 2], (256, 4): [256, 2, 2], (17, 4): [17, 2, 2]}


def leaf(folder: Path, array: np.ndarray, name: str, task: str) -> Entry:
    maximum, minimum, mean, norm = statistics(array)
    values = {"Max": maximum, "Min": minimum, "Mean": mean, "Norm": norm}
    if task == "tensor":
        (folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
        np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
        values["data_name"] = f"{name}.npy"
    return described(shape=array.shape) | values


def run(folder: Path, x: np.ndarray, *, task: str = "tensor", factor: float = 2.0, wrong: int | None = None) -> Path:
    """Record a linear layer, a view of its result, and a function."""
    y = (x * factor).astype(np.float32)
    if wrong is not None:
        y[wrong] *= 1.5
    sizes = [number(size) for size in VIEWED.get(x.shape, [1])]
    leaves = {name: leaf(folder, array, name, task) for name, array in (("x", x), ("y", y), ("w", WEIGHT))}
    data = {
        "Module.linear.Linear.forward.0": module([leaves["x"]], [leaves["y"]], weight=leaves["w"]),
        "Tensor.view.0.forward": call([leaves["y"], *sizes], [leaves["y"]]),
        "Functional.relu.0.forward": call([leaves["y"], leaves["w"]], [leaves["y"]]),
    }
    return write(folder, data, task=task)


ALONE = BATCH[2:3, :17]
SLICES = "0/8=2,1/32=:17"


def test_one_row_of_a_batch_is_the_row_alone(tmp_path: Path) -> None:
    batch, alone = run(tmp_path / "batch", BATCH), run(tmp_path / "alone", ALONE)
    assert compare(batch, alone).verdict == compare(alone, batch).verdict == "same"  # the files have the same rows
    other = run(tmp_path / "other", ALONE, factor=2.01)
    assert compare(batch, other).verdict == compare(other, batch).verdict == "diverged"
    result = compare(batch, alone, target_slice=SLICES)
    assert result.verdict == "same"
    assert "6 tensors were compared in the chosen slice" in result.summary.reason
    assert compare(alone, batch, golden_slice=SLICES).verdict == "same"
    shown = {row.target: row.cells for row in result.rows()}["x"]
    assert str(shown).count("[1, 17, 4]") == 2


def test_the_same_slices_in_other_forms(tmp_path: Path) -> None:
    batch, alone = run(tmp_path / "batch", BATCH), run(tmp_path / "alone", ALONE)
    items = [{"dim": 0, "size": 8, "begin": 2, "end": 3}, {"dim": 1, "size": 32, "end": 17}]
    value = TensorSlices((AxisSlice(0, 8, 2, 3), AxisSlice(1, 32, 0, 17)))
    for given in (items, value, "0/8=2:3,-2/32=:17"):
        assert compare(batch, alone, target_slice=given).verdict == "same"


def test_another_row_is_found_and_a_wrong_one_too(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", ALONE)
    other = compare(run(tmp_path / "batch", BATCH), alone, target_slice="0/8=3,1/32=:17")
    assert other.verdict == "diverged"
    wrong = compare(run(tmp_path / "wrong", BATCH, wrong=2), alone, target_slice=SLICES)
    found = wrong.summary.first_divergence
    assert found is not None and found.target == "Module.linear.Linear.forward.0" and found.slot == "output.0"
    elsewhere = compare(run(tmp_path / "elsewhere", BATCH, wrong=5), alone, target_slice=SLICES)
    assert elsewhere.verdict == "same"


def test_rows_of_two_batches(tmp_path: Path) -> None:
    order = [3, 1, 2, 0, 4, 5, 6, 7]
    left, right = run(tmp_path / "left", BATCH), run(tmp_path / "right", BATCH[order])
    assert compare(left, right).verdict == "diverged"
    assert compare(left, right, target_slice="0/8=3", golden_slice="0/8=0").verdict == "same"
    assert compare(left, right, target_slice="0/8=3", golden_slice="0/8=3").verdict == "diverged"


def test_rows_of_a_packed_batch(tmp_path: Path) -> None:
    """The tokens of all requests lie one after the other."""
    packed = run(tmp_path / "packed", BATCH.reshape(256, 4))
    alone = run(tmp_path / "alone", BATCH.reshape(256, 4)[64:81])
    assert compare(packed, alone, target_slice="0/256=64:81").verdict == "same"
    assert compare(packed, alone, target_slice="0/256=65:82").verdict == "diverged"


def test_an_axis_that_is_as_long_on_both_sides_stays(tmp_path: Path) -> None:
    square = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
    batch, alone = run(tmp_path / "batch", square), run(tmp_path / "alone", square[1:3])
    assert compare(batch, alone, target_slice="*/4=1:3").verdict == "same"


def test_statistics_of_the_whole_say_nothing_about_a_part(tmp_path: Path) -> None:
    batch = run(tmp_path / "batch", BATCH, task="statistics")
    alone = run(tmp_path / "alone", ALONE, task="statistics", factor=3.0)
    result = compare(batch, alone, target_slice=SLICES)
    assert result.verdict == "incomplete"  # the weight agrees
    (note,) = result.summary.incomplete
    assert note.startswith("6 tensors were not compared: a slice needs whole tensors") and note in result.summary.reason


def test_nothing_fits(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, ALONE) for name in "ab"]
    result = compare(*runs, target_slice="0/99=1")
    assert result.verdict == "same" and "no tensor has an axis that the slices fit" in result.summary.reason


def test_checksums_have_no_part(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / name, {"Torch.exp.0.forward": call([described(md5="0" * 8)], [described(md5="1" * 8)])})
        for name in "ab"
    ]
    result = compare(*runs, target_slice="0/4=1")
    assert result.verdict == "not_comparable" and "a slice of a tensor has no checksum" in result.summary.reason


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    batch, alone = run(tmp_path / "batch", BATCH), run(tmp_path / "alone", ALONE)
    (batch / "dump_tensor_data" / "y.npy").unlink()
    result = compare(batch, alone, target_slice=SLICES)
    assert result.verdict == "incomplete" and "a tensor file is missing" in result.summary.reason


def test_several_processes_get_the_same_slices(tmp_path: Path) -> None:
    for rank in range(2):
        run(tmp_path / "batch" / "step0" / f"rank{rank}", BATCH)
        run(tmp_path / "alone" / "step0" / f"rank{rank}", ALONE)
    result = compare(
        tmp_path / "batch", tmp_path / "alone", target_slice=SLICES, executor="processes:2", output=tmp_path / "out"
    )
    assert result.verdict == "same"


def test_a_wrong_slice_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match="golden_slice: '0/8=9:10': an axis of length 8 has no such range"):
        compare(tmp_path, tmp_path, golden_slice="0/8=9")
