"""Recorded comparisons: columns, names, order, metrics and (policy reference) verdicts must come out as recorded.

Departures on purpose: rows without a partner are warnings, golden-only rows appear, outputs are told by slot (case 29).
"""

import csv
import math
from pathlib import Path

import pytest

from msprobe.report.comparison import compare

HERE = Path(__file__).parent
CASES = sorted(folder.name for folder in HERE.iterdir() if folder.is_dir() and folder.name[:2].isdigit())
WRONG_VERDICTS = {"29_defect_output_in_module_path"}


def _table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _same(left: str, right: str) -> bool:
    if left == right:
        return True
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-6, abs_tol=1e-12)
    except ValueError:
        return False


@pytest.mark.parametrize("case", CASES)
def test_recorded_table(case: str, tmp_path: Path) -> None:
    folder = HERE / case
    document = "debug.json" if (folder / "target/debug.json").exists() else "dump.json"
    result = compare(folder / "target" / document, folder / "golden" / document, policy="reference", output=tmp_path)
    (path,) = map(Path, result.summary.results)
    expected_path = next(folder.glob("expected_*.csv"))
    assert path.name.startswith(expected_path.name.removeprefix("expected_").removesuffix(".csv"))
    found = [row for row in _table(path) if row["NPU Name"] != "N/A"]
    expected = _table(expected_path)
    assert [row["NPU Name"] for row in found] == [row["NPU Name"] for row in expected]
    assert list(found[0]) == list(expected[0])
    for got, want in zip(found, expected, strict=True):
        unmatched = want["Bench Name"] == "N/A"
        skipped = {"Result", "Err_message"} if unmatched or case in WRONG_VERDICTS else set()
        wrong = {key: (got[key], want[key]) for key in want if key not in skipped and not _same(got[key], want[key])}
        assert not wrong, (got["NPU Name"], wrong)
        if unmatched:
            assert got["Result"] == "warning" and got["Err_message"] != "[]"


@pytest.mark.parametrize("case", CASES)
def test_verdict_of_the_default_policy(case: str) -> None:
    result = compare(HERE / case / "target", HERE / case / "golden")
    expected = {"01_tensor_identical": "same", "30_defect_missing_tensor_files": "not_comparable"}
    assert result.verdict == expected.get(case, "diverged")


def test_missing_dtype_match_is_an_error_not_a_pass() -> None:
    case = HERE / "32_defect_dtype_unmatched"
    found = compare(case / "target", case / "golden").summary.first_divergence
    assert found is not None and (found.kind, found.slot) == ("dtype", "input.0")
