"""``msprobe accept`` and ``compare --accept``: from a result to an entry, and what every report says of it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from msprobe.cli.main import run
from tests.compare.dumps import call, tensor, write
from tests.rules.tree import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good run, one with a small difference in gelu, and one with a fault behind it, in the current folder."""
    values = {"good": (0.4, 0.3, 0.2), "known": (0.4004, 0.3003, 0.2002), "bad": (0.4004, 0.3003, 0.1)}
    for name, (gelu, linear, end) in values.items():
        data = {
            "Functional.gelu.0.forward": call([tensor(0.5)], [tensor(gelu)]),
            "Functional.linear.0.forward": call([tensor(gelu)], [tensor(linear)]),
            "Functional.sum.0.forward": call([tensor(linear)], [tensor(end)]),
        }
        write(tmp_path / name, data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMPARE = ["compare", "-tp", "known", "-gp", "good", "--fail-on", "diverged"]


def test_from_a_result_to_a_run_that_is_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMPARE, "--json", "result.json"]) == 1
    assert run(["accept", "result.json", "--reason", "tanh: ticket 123", "--expires", "2999-12-31"]) == 0
    assert "Accepted: value at Functional.gelu.0.forward, slot output.0 (tanh: ticket 123)" in capsys.readouterr().out
    (entry,) = yaml.safe_load(Path("accepted.yaml").read_text())
    assert entry["at_most"] > 4 and entry["expires"] == "2999-12-31" and entry["slot"] == "output.0"
    schema = json.loads((ROOT / "schemas" / "accept.schema.json").read_text())
    jsonschema.validate([entry], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([{**entry, "why": "x"}], schema)
    assert run([*COMPARE, "--accept", "accepted.yaml"]) == 0
    text = capsys.readouterr().out
    assert "Verdict: SAME (with 1 accepted difference;" in text
    assert (
        "Accepted: value at Functional.gelu.0.forward, slot output.0 (tanh: ticket 123, until 2999-12-31): used" in text
    )
    assert run(["accept", "result.json", "--reason", "again"]) == 2
    assert "is accepted already" in capsys.readouterr().err


def test_the_next_difference_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_entries({"finding": "value", "place": "Functional.gelu.*.forward", "reason": "known"})
    words = ["compare", "-tp", "bad", "-gp", "good", "--accept", "accepted.yaml", "--fail-on", "diverged"]
    assert run(words) == 1
    assert "First divergence: Functional.sum.0.forward" in capsys.readouterr().out
    assert run([*words, "-da"]) == 1
    assert "First difference: Functional.sum.0.forward" in capsys.readouterr().out


def test_every_report_lists_used_and_unused_entries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = {"finding": "value", "place": "Functional.gelu.0.forward", "reason": "known"}
    write_entries(known, {**known, "place": "other"}, {**known, "step": 0, "expires": "2020-01-31"})
    assert run([*COMPARE, "--accept", "accepted.yaml", "--html", "a.html", "--junit", "a.xml", "--json", "a.json"]) == 0
    text = capsys.readouterr().out
    assert "Not accepted: value at other (known): not used" in text
    assert "(known, until 2020-01-31): expired" in text
    document = json.loads(Path("a.json").read_text())
    jsonschema.validate(document, json.loads((ROOT / "schemas" / "compare_summary.schema.json").read_text()))
    assert [use["state"] for use in document["accepted"]] == ["used", "unused", "expired"]
    page = Path("a.html").read_text()
    assert page.count('<li class="unused">') == 1 and "with 1 accepted difference" in page
    root = ET.parse("a.xml").getroot()
    cases = root.findall("testsuite[@name='accepted differences']/testcase")
    assert [case[0].tag for case in cases] == ["system-out", "skipped", "skipped"]
    assert root.get("failures") == "0" and root.get("skipped") == "2"
    rows = next(Path("output").glob("*.csv")).read_text()
    assert "an accepted difference" in rows and "follows from an accepted difference" in rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--accept", "nowhere.yaml"], "the accept file cannot be read"),
        (["--accept", "wrong.yaml"], "line 1: there is no key 'why'"),
    ],
)
def test_a_wrong_file_is_one_line(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.yaml").write_text("- {finding: value, place: a, reason: b, why: c}")
    for more in ([], ["-da"]):
        assert run([*COMPARE, *words, *more]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def write_entries(*entries: dict[str, object]) -> None:
    Path("accepted.yaml").write_text(yaml.safe_dump(list(entries)))
