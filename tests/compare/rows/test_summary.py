"""The JSON summary is what its schema says."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from msprobe.compare.records.call_source import source_line
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


def test_the_source_is_a_line_that_can_be_opened() -> None:
    compiled = "File <eval_with_key>.3, line 60, in forward, \n enter = torch.ops.msprobe.enter.default(x)"
    library = "File /env/lib/python3.11/site-packages/torch/nn/modules/module.py, line 1, in _call_impl, \n return f()"
    own = "File /home/me/train.py, line 7, in step, \n loss = compiled(x)"
    assert (
        source_line([library, compiled, library, own]) == "File /home/me/train.py, line 7, in step, loss = compiled(x)"
    )
