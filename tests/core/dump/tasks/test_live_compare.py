"""Whether two dumps have anything in common that their tensors can be held against each other by."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.core.dump.tasks.live_compare import missing_evidence

STATISTICS = {"Max": 1.0, "Min": 0.0}


def golden(**facts: Any) -> dict[str, Any]:
    node = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **facts}
    return {"f": {"input_args": [{"type": "int", "value": 1}, None], "output": [node]}}


@pytest.mark.parametrize(
    ("facts", "mode", "held"),
    [
        (STATISTICS, "statistics", None),
        ({"Mean": 0.5}, "statistics", None),
        (STATISTICS, "md5", None),
        (STATISTICS, "xor", "it holds statistics, this run xor checksums"),
        ({**STATISTICS, "md5": "a1"}, "statistics", None),
        ({**STATISTICS, "md5": "a1"}, "xor", "it holds statistics and md5 checksums, this run xor checksums"),
        ({"md5": "a1"}, "md5", None),
        ({"md5": "0xa1"}, "xor", None),
        ({"md5": "0xa1"}, "md5", "it holds xor checksums, this run statistics and md5 checksums"),
        ({"Max": None}, "statistics", "it holds no values of tensors, this run statistics"),
    ],
)
def test_what_two_runs_have_in_common(facts: dict[str, Any], mode: str, held: str | None) -> None:
    assert missing_evidence(golden(**facts), mode) == held


@pytest.mark.parametrize("data", [{}, {"f": {"output": [{"type": "int", "value": 1}]}}], ids=["empty", "no tensor"])
def test_a_dump_without_tensors_has_nothing_against_any_mode(data: dict[str, Any]) -> None:
    assert missing_evidence(data, "xor") is None
