"""Recorded analyses of several ranks. Where the record is a defect, the right answer is stated here."""

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.analyze.diff_documents import ComparedCalls, FirstCalls, OverflowCalls
from msprobe.analyze.overflow import check_overflow, write_document
from msprobe.jobs.compare import compare

HERE = Path(__file__).parent
DIFFERENCES = HERE / "22_multi_rank_diff_analyze"
UNMATCHED = "Tensor.__mul__.0.forward"


def _document(path: Path) -> Any:
    return json.loads(path.read_text())


def test_overflow_of_two_ranks_is_as_recorded(tmp_path: Path) -> None:
    case = HERE / "24_overflow_check_2ranks"
    written = _document(write_document(check_overflow(case / "target").document(), tmp_path, "anomaly_analyze"))
    expected = _document(case / "expected_anomaly_analyze.json")
    assert list(written) == list(expected) == ["rank_1"]
    (found,), (recorded,) = written["rank_1"], expected["rank_1"]
    assert json.dumps({key: found[key] for key in recorded}) == json.dumps(recorded)


def test_overflow_of_four_ranks_names_the_earliest_of_two_groups() -> None:
    """The record blames rank 0, three exchanges later: its search leaves out ranks outside of the first group."""
    finding = check_overflow(HERE / "25_overflow_check_4ranks_2groups" / "target")
    ((rank, (found,)),) = finding.document().items()
    assert (rank, found["op_name"]) == ("rank_2", "Torch.div.1.forward")
    assert any("Independent of it (rank 0" in line and "Torch.div.3.forward" in line for line in finding.lines)


@pytest.mark.parametrize("policy", ["default", "reference"])
def test_first_difference_is_the_call_that_only_the_target_has(policy: str, tmp_path: Path) -> None:
    """The record blames the all_reduce after it, on both ranks: a call without a partner never counts there."""
    result = diff_analyze(DIFFERENCES / "target", DIFFERENCES / "golden", tmp_path, policy)
    assert {rank: [call["op_name"] for call in calls] for rank, calls in result.document.items()} == {
        "rank_1": [UNMATCHED]
    }
    recorded = _document(DIFFERENCES / "expected_diff_analyze.json")["rank_1"][0]
    (found,) = result.document["rank_1"]
    assert found.keys() >= recorded.keys() and found["data_info"].keys() == recorded["data_info"].keys()
    assert found["stack_info"][0].startswith("File mkdist.py, line 16")
    assert found["data_info"]["output"][f"{UNMATCHED}.output.0"]["NPU max"] == 2.2184576988220215


@pytest.mark.parametrize("rank", [0, 1])
def test_rows_of_each_rank_are_as_recorded(rank: int, tmp_path: Path) -> None:
    result = diff_analyze(DIFFERENCES / "target", DIFFERENCES / "golden", tmp_path, "reference")
    found, expected = _document(result.files[rank]), _document(DIFFERENCES / f"expected_compare_result_rank{rank}.json")
    assert list(found) == list(expected)
    for name, call in expected.items():
        assert found[name]["is_same"] == (call["is_same"] and name != UNMATCHED)
        for got, want in zip(found[name]["op_items"], call["op_items"], strict=True):
            kept = {key for key in want if key not in ("Result", "Err_message") and not key.startswith("Bench P2POp")}
            assert {key: got[key] for key in kept} == {key: want[key] for key in kept}


@pytest.mark.parametrize("policy", ["default", "reference"])
def test_written_documents_are_what_their_schemas_say(policy: str, tmp_path: Path) -> None:
    result = diff_analyze(DIFFERENCES / "target", DIFFERENCES / "golden", tmp_path, policy)
    for file in result.files:
        kind = FirstCalls if file.name.startswith("diff_analyze") else ComparedCalls
        kind.validate_json(file.read_bytes(), strict=True)
    for case in ("24_overflow_check_2ranks", "25_overflow_check_4ranks_2groups"):
        written = write_document(check_overflow(HERE / case / "target").document(), tmp_path, "anomaly_analyze")
        OverflowCalls.validate_json(written.read_bytes(), strict=True)


def test_compare_names_the_same_call() -> None:
    found = compare(DIFFERENCES / "target", DIFFERENCES / "golden").summary.first_divergence
    assert found is not None and (found.rank, found.target) == (1, UNMATCHED)
