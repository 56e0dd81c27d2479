"""An agreement of statistics that see no order holds as far as these statistics tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.report.summary_text import summary_text
from tests.compare.dumps import Entry, call, tensor, write

NAME = "Functional.relu.0.forward"
WORDS = "as far as these statistics tell"


def run(folder: Path, leaf: Entry, result: Entry | None = None) -> Path:
    return write(folder, {NAME: call([leaf], [result or leaf])})


@pytest.mark.parametrize(("left", "right"), [({}, {}), ({"Projection": 1.0}, {}), ({}, {"Projection": 1.0})])
def test_without_an_order_on_both_sides_the_verdict_says_so(left: Entry, right: Entry, tmp_path: Path) -> None:
    pair = run(tmp_path / "t", tensor(**left)), run(tmp_path / "g", tensor(**right))
    result = msprobe.compare(*pair, html=tmp_path / "r.html", junit=tmp_path / "r.xml")
    assert WORDS in (tmp_path / "r.xml").read_text()
    assert summary_text(result.summary).startswith(f"Verdict: SAME ({WORDS}") and result.summary.order_blind
    assert WORDS in (tmp_path / "r.html").read_text()
    assert f"This holds {WORDS}: " in list(diff_analyze(*pair, tmp_path / "o").lines)[1]


def test_with_an_order_on_both_sides_it_does_not(tmp_path: Path) -> None:
    pair = (run(tmp_path / side, tensor(Projection=1.0)) for side in "tg")
    assert summary_text(msprobe.compare(*pair).summary).startswith("Verdict: SAME\n")


def test_another_order_is_found_where_it_is_recorded(tmp_path: Path) -> None:
    left, right = run(tmp_path / "t", tensor(Projection=1.0)), run(tmp_path / "g", tensor(Projection=-1.0))
    found = msprobe.compare(left, right).summary.first_divergence
    assert found is not None and "the order of the elements (projection)" in found.reason


def test_inputs_that_agree_in_blind_statistics_may_not_agree(tmp_path: Path) -> None:
    left, right = run(tmp_path / "t", tensor(), tensor(3.0)), run(tmp_path / "g", tensor(), tensor())
    found = msprobe.compare(left, right).summary.first_divergence
    assert found is not None and found.reason.endswith(f"its inputs agree, {WORDS}")


@pytest.mark.parametrize("leaf", [tensor(shape=(1,)), tensor(md5="00000000")])
def test_where_order_means_nothing_it_is_not_mentioned(leaf: Entry, tmp_path: Path) -> None:
    assert WORDS not in summary_text(msprobe.compare(run(tmp_path / "t", leaf), run(tmp_path / "g", leaf)).summary)


SURE = "its inputs agree"


@pytest.mark.parametrize(
    ("function", "dtype", "apart", "words"),
    [
        ("Torch.topk", "float32", 1e-7, "it chooses between values"),
        ("Functional.softmax", "bfloat16", 2e-3, "an earlier call may have made a part of it"),
        ("Functional.softmax", "float32", 1e-7, SURE),
        ("Torch.topk", "float32", 0.0, SURE),
        ("Functional.gelu", "bfloat16", 0.0, SURE),
    ],
)
def test_rounding_of_the_inputs_is_said(tmp_path: Path, function: str, dtype: str, apart: float, words: str) -> None:
    for side, factor, result in (("t", 1.0 + apart, 3.0), ("g", 1.0, 2.0)):
        own = call([tensor(factor, dtype=dtype)], [tensor(result, dtype=dtype)])
        write(tmp_path / side, {f"{function}.0.forward": own})
    found = msprobe.compare(tmp_path / "t", tmp_path / "g").summary.first_divergence
    assert found is not None and words in found.reason
    assert (words == SURE) == (f"; {SURE}, as far as these statistics tell" in found.reason)
