"""The JSON summary is what its schema says."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from msprobe.compare.rows.summary import CompareSummary, Counts, FirstDivergence, summary_schema
from msprobe.report.summary_text import summary_json, summary_text

FOUND = FirstDivergence(1, None, "a", None, "output.0", "value", "because", "m.Linear", ["File a.py, line 3"])
FULL = CompareSummary("diverged", "t", "g", "default", counts=Counts(3, 1, 1, 1), first_divergence=FOUND)


@pytest.mark.parametrize("summary", [FULL, CompareSummary("same", "t", "g", "reference", unpaired=["x"])])
def test_round_trip(summary: CompareSummary) -> None:
    assert TypeAdapter(CompareSummary).validate_json(summary_json(summary)) == summary


def test_names_in_json() -> None:
    schema, document = summary_schema(), json.loads(summary_json(FULL))
    assert set(document) == set(schema["properties"])
    assert set(document["counts"]) == set(schema["$defs"]["Counts"]["properties"])
    assert document["counts"]["pass"] == 1 and set(document["first_divergence"]) == set(FOUND.__dataclass_fields__)


def test_a_wrong_verdict_is_refused() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(CompareSummary).validate_json(summary_json(FULL).replace('"diverged"', '"maybe"'))


def test_long_lists_are_cut_in_the_terminal() -> None:
    summary = CompareSummary("same", "t", "g", "default", results=[f"{k}.csv" for k in range(100)])
    assert "Table: ... and 92 more" in summary_text(summary) and summary_text(summary).count("Table:") == 9


def test_a_name_says_which_side_has_the_call() -> None:
    assert FOUND.name == "a of the target alone"
    assert replace(FOUND, target=None, golden="b").name == "b of the golden run alone"
    assert replace(FOUND, golden="b").name == "a of the target, b of the golden run"
    assert replace(FOUND, golden="a").name == "a"


def test_the_words_of_a_kind_never_contradict_the_heading() -> None:
    lone = replace(FOUND, target=None, golden="b", kind="missing_in_target", slot=None)
    assert lone.kind_words == "only in the golden run"
    assert replace(lone, target="b", slot="output.0").kind_words == "no value in the target"
    assert replace(lone, target="b", slot="parameters_grad.weight").kind_words == "no gradient in the target"
    assert replace(lone, target="b", kind="order").kind_words == "in another order"


def test_the_line_of_the_golden_run_is_shown_where_it_differs() -> None:
    both = replace(FOUND, golden="a", source="/a.py:3 in f: x()", golden_source="/b.py:4 in f: x()")
    text = summary_text(replace(FULL, first_divergence=both))
    assert "  source: /a.py:3 in f: x()\n  golden source: /b.py:4 in f: x()\n" in text
    same = replace(both, golden_source=both.source)
    assert "golden source" not in summary_text(replace(FULL, first_divergence=same))
    lone = replace(both, target=None, golden_source=both.source, source_of_golden=True)
    assert "  source: /a.py:3 in f: x() (golden run)\n" in summary_text(replace(FULL, first_divergence=lone))
    other = replace(both, target=None)  # a cause that stands in the target
    lines = "  source: /a.py:3 in f: x() (target)\n  golden source: /b.py:4 in f: x()\n"
    assert lines in summary_text(replace(FULL, first_divergence=other))


def test_warnings_are_rows_that_follow() -> None:
    counts = Counts(4000, 1000, 2990, 10)
    text = summary_text(replace(FULL, counts=counts))
    assert "Rows: 4000 pairs: 1000 pass; 1 cause; 2999 rows follow from it;" in text and "warning" not in text


def test_an_agreement_that_no_order_supports_says_so() -> None:
    same = CompareSummary("same", "t", "g", "default", order_blind=True)
    assert summary_text(same).startswith("Verdict: SAME (as far as these statistics tell)\n")
    assert "\nRemark: as far as these statistics tell: a side has no Projection" in summary_text(same)
    assert summary_text(replace(same, order_blind=False)).startswith("Verdict: SAME\n")


def test_the_line_of_the_verdict_has_two_short_notes_and_the_number_of_the_others() -> None:
    long = "1 call differs (first: Torch.add.0.forward.input.0: True in the target, False in the golden run)"
    same = CompareSummary("same", "t", "g", "default", notes=[long, "the second", "the third", f"more: {long}"])
    lines = summary_text(same).splitlines()
    assert lines[0] == "Verdict: SAME (1 call differs; the second; 2 more remarks)"
    assert [line for line in lines if line.startswith("Remark: ")] == [
        f"Remark: {note}" for note in same.notes if note != "the second"
    ]


def test_why_nothing_is_comparable_is_said_as_a_whole() -> None:
    reason = (
        "the tasks differ: statistics in the target, tensor in the golden run; record both with one of them, please"
    )
    assert summary_text(CompareSummary("not_comparable", "t", "g", "default", reason)) == (
        f"Verdict: NOT COMPARABLE ({reason})"
    )


LINEAR, BACK = "Functional.linear.0.forward", "Functional.linear.0.backward"


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "msprobe op_generate 'my run' --api Functional.linear.0"),
        ({"target": BACK}, "msprobe op_generate 'my run' --api Functional.linear.0 --backward"),
        ({"target": None}, ""),
        ({"target": "Module.fc.Linear.forward.0"}, ""),
        ({"kind": "order"}, ""),
        ({"ranks": [1]}, ""),
    ],
)
def test_the_command_that_runs_the_call_alone(changes: dict[str, Any], command: str) -> None:
    first = FirstDivergence(0, None, LINEAR, LINEAR, "output.0", "value", "because", None, [])
    assert replace(first, **changes).script_command("my run") == command
