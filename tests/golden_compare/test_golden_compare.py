"""Recorded comparisons: columns, names, order, metrics and (policy reference) verdicts must come out as recorded.

Departures on purpose: rows without a partner are warnings, golden-only rows appear, outputs are told by slot (case 29);
between two frameworks ``Float32`` is ``torch.float32`` and a flag that MindSpore does not record is no error (17, 18).
Cases 28 and 31 record a wrong pairing; what is right is tested by itself.
"""

import csv
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from msprobe.jobs.compare import CompareResult, compare

HERE = Path(__file__).parent
CASES = sorted(folder.name for folder in HERE.iterdir() if folder.is_dir() and folder.name[:2].isdigit())
WRONG_VERDICTS = {"29_defect_output_in_module_path", "17_layer_mapping_ms_pt", "18_api_mapping_ms_pt"}
WRONG_PAIRS = {"28_defect_fuzzy_md5", "31_defect_cell_mapping_recompute"}
FLAGS = {"-cm": "cell_mapping", "-am": "api_mapping", "-dm": "data_mapping", "-lm": "layer_mapping"}


def _mapping(case: str) -> dict[str, Any]:
    """The keywords that the recorded command means."""
    words = (HERE / case / "command.txt").read_text().split()
    found: dict[str, Any] = {"fuzzy_match": "-fm" in words}
    for flag in FLAGS.keys() & set(words):
        file = (*words, "-")[words.index(flag) + 1]
        found[FLAGS[flag]] = True if file.startswith("-") else HERE / case / file
    return found


def _run(case: str, output: Path, policy: str = "reference") -> CompareResult:
    folder = HERE / case
    document = "debug.json" if (folder / "target/debug.json").exists() else "dump.json"
    sides = folder / "target" / document, folder / "golden" / document
    return compare(*sides, policy=policy, output=output, **_mapping(case))


VERDICTS = {
    "01_tensor_identical": "same",
    "06_tensor_fuzzy": "same",  # a renamed layer, and all values that follow from it agree
    "30_defect_missing_tensor_files": "not_comparable",
    "31_defect_cell_mapping_recompute": "same",
}


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


@pytest.mark.parametrize("case", [case for case in CASES if case not in WRONG_PAIRS])
def test_recorded_table(case: str, tmp_path: Path) -> None:
    path = Path(_run(case, tmp_path).summary.results[0])
    expected_path = next((HERE / case).glob("expected_*.csv"))
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
    result = compare(HERE / case / "target", HERE / case / "golden", **_mapping(case))
    assert result.verdict == VERDICTS.get(case, "diverged")
    counts = result.summary.counts
    assert (counts.error == 0) or result.verdict == "diverged"


def test_an_input_that_differs_out_of_nothing_is_an_error() -> None:
    """Nothing before it differs; the results of the call then follow from it."""
    case = HERE / "29_defect_output_in_module_path"
    result = compare(case / "target", case / "golden")
    found = result.summary.first_divergence
    first = [row for row in result.rows() if row.level != "pass"][:2]
    assert found is not None and found.slot == "input.0"
    assert [(row.level, ".forward.0.input.0" in row.target) for row in first] == [("error", True), ("warning", False)]


def test_missing_dtype_match_is_an_error_not_a_pass() -> None:
    case = HERE / "32_defect_dtype_unmatched"
    found = compare(case / "target", case / "golden").summary.first_divergence
    assert found is not None and (found.kind, found.slot) == ("dtype", "input.0")


def test_tensor_files_that_are_missing_are_no_pass() -> None:
    """Recorded: a pass for every row. Whole tensors were asked for, and equal statistics do not say that they agree."""
    case = HERE / "30_defect_missing_tensor_files"
    result = compare(case / "target", case / "golden")
    assert result.verdict == "not_comparable"
    for row in result.rows():
        assert row.level == "warning" and "the tensor file is missing" in row.messages[0]


def test_the_data_mapping_of_a_layer_mapping_is_written(tmp_path: Path) -> None:
    """Same pairs as recorded; as a data mapping it gives the same table."""
    case = "17_layer_mapping_ms_pt"
    table, mapping = map(Path, _run(case, tmp_path).summary.results)
    expected = yaml.safe_load((HERE / case / "expected_data_mapping.yaml").read_text())
    assert yaml.safe_load(mapping.read_text()) == expected
    again = compare(
        HERE / case / "target", HERE / case / "golden", policy="reference", output=tmp_path, data_mapping=mapping
    )
    first, second = _table(table), _table(Path(again.summary.results[0]))
    assert [(row["NPU Name"], row["Bench Name"]) for row in first] == [
        (row["NPU Name"], row["Bench Name"]) for row in second
    ]


def test_fuzzy_keeps_all_rows_and_digests(tmp_path: Path) -> None:
    """Recorded: equal digests as errors, and the last row of the target lost."""
    found = _table(Path(_run("28_defect_fuzzy_md5", tmp_path).summary.results[0]))
    names = [row["NPU Name"] for row in found if row["NPU Name"] != "N/A"]
    assert len(names) == 7 and names[-1] == "Functional.only.0.forward.output.0"
    for row in found:
        if "N/A" not in (row["NPU Name"], row["Bench Name"]):
            assert row["NPU MD5"] and row["BENCH MD5"]
            assert (row["Result"] == "pass") == (row["NPU MD5"] == row["BENCH MD5"])
        else:
            assert row["Result"] == "warning"


def test_a_recomputed_backward_stays_paired_under_a_cell_mapping(tmp_path: Path) -> None:
    """Recorded: the backward of a dump against itself without a partner."""
    found = _table(Path(_run("31_defect_cell_mapping_recompute", tmp_path).summary.results[0]))
    assert len(found) == 8
    assert all(row["NPU Name"] == row["Bench Name"] and row["Result"] == "pass" for row in found)
