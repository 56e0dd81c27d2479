"""The columns after the documented ones say how far off a value is, and where."""

import json
from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.columns import columns
from msprobe.compare.rows.rows import CompareRow
from msprobe.jobs.compare import CompareResult, compare
from tests.compare.dumps import Entry, call, tensor, write

GOLDEN = Path(__file__).parents[2] / "golden_compare"


def rows(result: CompareResult) -> list[dict[str, object]]:
    (comparison,) = result.comparisons()
    return [dict(zip(comparison.columns, row.cells, strict=True)) for row in comparison.rows()]


def arrays(folder: Path, values: np.ndarray) -> Path:
    """A tensor dump of one call with this output."""
    leaf: Entry = tensor(shape=values.shape) | {"data_name": "Torch.mul.0.forward.output.0.npy"}
    leaf |= {"Max": float(values.max()), "Min": float(values.min()), "Mean": float(values.mean()), "Norm": 1.0}
    write(folder, {"Torch.mul.0.forward": call([tensor()], [leaf])}, task="tensor")
    (folder / "dump_tensor_data").mkdir()
    np.save(folder / "dump_tensor_data" / leaf["data_name"], values)
    return folder


def test_documented_columns_come_first() -> None:
    result = compare(GOLDEN / "02_tensor_noise" / "target", GOLDEN / "02_tensor_noise" / "golden")
    (comparison,) = result.comparisons()
    known = columns(Mode.TENSOR, True)
    assert comparison.columns[: len(known)] == known
    assert all(isinstance(row, CompareRow) and len(row.cells) == len(comparison.columns) for row in comparison.rows())


def test_statistics_in_units_of_their_tolerance(tmp_path: Path) -> None:
    for side, scale in (("target", 1.0 + 2e-2), ("golden", 1.0)):
        write(tmp_path / side, {"Torch.mul.0.forward": call([tensor()], [tensor(scale)])})
    result = compare(tmp_path / "target", tmp_path / "golden")
    given, made = rows(result)
    assert (given["Times tolerance"], float(str(given["Tolerance"])) > 0) == (0, True)
    times, tolerance = float(str(made["Times tolerance"])), float(str(made["Tolerance"]))
    assert times * tolerance == pytest.approx(2e-2 / 1.02, rel=1e-2) and times > 1000
    assert f"{times:.3g} times the" in str(made["Err_message"])
    found = result.summary.first_divergence
    assert found is not None and found.times_tolerance == pytest.approx(times, rel=1e-3)


def test_rows_that_no_tolerance_can_excuse_have_none(tmp_path: Path) -> None:
    write(tmp_path / "target", {"Torch.mul.0.forward": call([tensor()], [tensor(shape=(2, 2)), tensor()])})
    write(tmp_path / "golden", {"Torch.mul.0.forward": call([tensor()], [tensor()])})
    found = rows(compare(tmp_path / "target", tmp_path / "golden"))
    assert [row["Times tolerance"] for row in found] == [0, "N/A", "N/A"]


def test_the_worst_and_the_first_element(tmp_path: Path) -> None:
    golden = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)
    target = golden.copy()
    target[0, 2] += np.float32(0.001)
    target[2, 1] += np.float32(0.5)
    result = compare(arrays(tmp_path / "target", target), arrays(tmp_path / "golden", golden))
    made = rows(result)[1]
    assert (made["First different index"], made["Allclose"]) == ("[0, 2]", "False")
    assert str(made["Worst element"]).startswith("[2, 1]: 2.31818")
    assert int(str(made["ULP distance"])) > 1000
    found = result.summary.first_divergence
    assert found is not None and (found.first_index, found.worst_index) == ([0, 2], [2, 1])
    assert json.loads(json.dumps(result.summary.document()))["first_divergence"]["worst_index"] == [2, 1]


def test_an_equal_tensor(tmp_path: Path) -> None:
    same = np.ones((2, 2), np.float32)
    result = compare(arrays(tmp_path / "target", same), arrays(tmp_path / "golden", same))
    made = rows(result)[1]
    names = ("ULP distance", "Allclose", "First different index", "Worst element")
    assert [made[name] for name in names] == [0, "True", "N/A", "N/A"]


def test_a_custom_metric_has_a_column_and_never_ends_the_comparison(tmp_path: Path) -> None:
    source = tmp_path / "own.py"
    source.write_text(
        "def total(n, b):\n    return float(n.sum() - b.sum())\n\ndef bad(n, b):\n    raise KeyError(3)\n"
    )
    values = np.ones(4, np.float32)
    sides = arrays(tmp_path / "target", 3 * values), arrays(tmp_path / "golden", values)
    found = rows(compare(*sides, metrics=[f"{source}:total", f"{source}:bad"]))
    assert [(row["total"], row["bad"]) for row in found] == [("unsupported",) * 2, (8.0, "unsupported")]
    assert "bad: KeyError: 3" in str(found[1]["Err_message"])
    assert list(found[0])[-2:] == ["total", "bad"]


LONG = [2**53, 5, 2**60]


@pytest.mark.parametrize("at", [0, 2], ids=["2^53", "2^60"])
def test_neighbouring_long_integers_differ(tmp_path: Path, at: int) -> None:
    golden = np.array(LONG, np.int64)
    target = golden.copy()
    target[at] += 1
    sides = [arrays(tmp_path / name, values) for name, values in (("target", target), ("golden", golden))]
    for side in sides:
        document = side / "dump.json"
        document.write_text(document.read_text().replace("torch.float32", "torch.int64"))
    result = compare(*sides)
    made = rows(result)[1]
    worst = f"[{at}]: {LONG[at] + 1} against {LONG[at]}"
    names = ("Result", "ULP distance", "Allclose", "First different index", "Worst element", "Times tolerance")
    assert [made[name] for name in names] == ["error", 1, "False", f"[{at}]", worst, "N/A"]
    assert result.verdict == "diverged" and "where none is allowed" in str(made["Err_message"])
    assert result.summary.first_divergence is not None and result.summary.first_divergence.times_tolerance is None


@pytest.mark.parametrize("name", ["Max", "Min"])
@pytest.mark.parametrize("size", [1, 3], ids=["one element", "several elements"])
def test_recorded_extremes_of_long_integers_are_exact(tmp_path: Path, name: str, size: int) -> None:
    same = {"Max": 2**60, "Min": -(2**60), "Mean": 1.0, "Norm": float(2**60)}
    for side, more in (("target", 1), ("golden", 0)):
        leaf = tensor(shape=(size,), dtype="int64") | same | {name: same[name] + more}
        write(tmp_path / side, {"Torch.abs.0.forward": call([tensor()], [leaf])})
    result = compare(tmp_path / "target", tmp_path / "golden")
    made = rows(result)[1]
    assert (result.verdict, made["Result"]) == ("diverged", "error")


def test_an_integer_that_differs_has_no_times_tolerance(tmp_path: Path) -> None:
    for side, most in (("target", 100), ("golden", 101)):
        leaf = tensor(shape=(4,), dtype="int32") | {"Max": most, "Min": 0, "Mean": 40.0, "Norm": 120.0}
        write(tmp_path / side, {"Torch.abs.0.forward": call([tensor()], [leaf])})
    given, made = rows(compare(tmp_path / "target", tmp_path / "golden"))
    assert (made["Result"], made["Times tolerance"], made["Tolerance"]) == ("error", "N/A", "N/A")
    assert given["Times tolerance"] == 0
