"""The file of accepted differences: what is read, refused, written, and which finding an entry means."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.accepted import accepts, add_accepted, entry_of, read_accepted, uses_of
from msprobe.compare.rows.summary import AcceptedDifference, AcceptedFinding, FirstDivergence, KindText
from msprobe.core.errors import MsprobeException, ReadError

NAMES = st.text(alphabet="abM.0_[]", min_size=1, max_size=12)
TEXTS = st.text(min_size=1, max_size=20).map(str.strip).filter(bool).filter(str.isprintable)
NUMBERS = st.none() | st.integers(0, 9).map(str)
ENTRIES = st.builds(
    AcceptedDifference,
    finding=st.sampled_from(get_args(KindText)),
    place=TEXTS,
    reason=TEXTS,
    slot=st.none() | TEXTS,
    step=NUMBERS,
    rank=NUMBERS,
    at_most=st.none() | st.floats(0.01, 1e6),
    expires=st.none() | st.dates(date(2000, 1, 1), date(2100, 1, 1)).map(date.isoformat),
)


def found(**values: Any) -> FirstDivergence:
    known: dict[str, Any] = {"step": 0, "rank": None, "target": "Functional.gelu.0.forward", "golden": None}
    known |= {"slot": "output.0", "kind": "value", "reason": "differs", "module": "b.mlp.MLP", "stack": []}
    return FirstDivergence(**known | values)


ENTRY = AcceptedDifference("value", "Functional.gelu.0.forward", "known")


@given(name=NAMES)
def test_a_place_is_a_whole_name(name: str) -> None:
    entry = replace(ENTRY, place=name)
    assert accepts(entry, found(target=name)) and accepts(entry, found(target=None, golden=name))
    assert accepts(entry, found(module=name)) and accepts(entry, found(golden_module=name))
    assert not accepts(entry, found(target=f"{name}x", golden=f"x{name}", module=None))


@given(name=NAMES, start=st.integers(0, 12), count=st.integers(0, 12))
def test_patterns_are_those_of_a_shell_without_brackets(name: str, start: int, count: int) -> None:
    pattern = f"{name[:start]}*{name[start + count :]}"
    assert accepts(replace(ENTRY, place=pattern), found(target=name))
    plain = pattern.translate({ord("["): "(", ord("]"): ")"})
    other = name[::-1].translate({ord("["): "(", ord("]"): ")"})
    assert accepts(replace(ENTRY, place=plain), found(target=other, module=None)) == fnmatchcase(other, plain)


@pytest.mark.parametrize(
    ("entry", "finding", "meant"),
    [
        ({}, {}, True),
        ({}, {"kind": "argument"}, False),
        ({"slot": "output.0"}, {}, True),
        ({"slot": "output.1"}, {}, False),
        ({"step": "0-2,5"}, {"step": 2}, True),
        ({"step": "0-2,5"}, {"step": 3}, False),
        ({"step": "0"}, {"step": None}, False),
        ({"rank": "1"}, {"rank": 1}, True),
        ({"rank": "1"}, {"rank": 0}, False),
        ({"at_most": 3.0}, {"times_tolerance": 2.9}, True),
        ({"at_most": 3.0}, {"times_tolerance": 3.1}, False),
        ({"at_most": 3.0}, {}, False),
        ({"expires": date.today().isoformat()}, {}, True),
        ({"expires": (date.today() - timedelta(1)).isoformat()}, {}, False),
        ({"place": "b.mlp.MLP"}, {}, True),
        ({"place": "b.mlp"}, {}, False),
        ({"place": "b.*"}, {}, True),
    ],
)
def test_what_an_entry_means(entry: dict[str, Any], finding: dict[str, Any], meant: bool) -> None:
    assert accepts(replace(ENTRY, **entry), found(**finding)) is meant


@given(entries=st.lists(ENTRIES, min_size=1, max_size=4, unique_by=lambda one: one.text))
def test_what_is_written_is_read(entries: list[AcceptedDifference]) -> None:
    said = [entry.said for entry in entries]
    assert read_accepted(yaml.safe_load(yaml.safe_dump(said, allow_unicode=True))) == tuple(entries)
    assert read_accepted(json.loads(json.dumps(said))) == tuple(entries)


GOOD = "- finding: value\n  place: a\n  reason: known\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no entries"),
        ("finding: value", "is a list, not a table"),
        ("- value", "written as `finding`, `place` and `reason`"),
        (f"{GOOD}  why: x\n", "line 4: there is no key 'why'; keys: finding, place, reason, slot"),
        ("- {finding: value, place: a}", "without reason; say why the difference is accepted"),
        ("- {finding: value, place: a, reason: ' '}", "without reason"),
        ("- {finding: value, reason: a}", "without place"),
        ("- {place: b, reason: a}", "without finding"),
        ("- {finding: incomplete, place: a, reason: b}", "'incomplete' is a verdict and no difference"),
        ("- {finding: not_comparable, place: a, reason: b}", "it cannot be accepted"),
        ("- {finding: wrong, place: a, reason: b}", "there is no finding 'wrong'; findings: value, non_finite"),
        (f"{GOOD}  expires: 2026-13-01\n", "line 4: expires is a day such as 2026-12-31, not '2026-13-01'"),
        (f"{GOOD}  expires: tomorrow\n", "not 'tomorrow'"),
        (f"{GOOD}  expires: 20261231\n", "not '20261231'"),
        (f"{GOOD}  step: first\n", "line 4: step 'first'"),
        (f"{GOOD}  rank: 3-1\n", "rank '3-1'"),
        (f"{GOOD}  at_most: much\n", "at_most is a number above 0"),
        (f"{GOOD}  at_most: nan\n", "at_most is a number above 0"),
        (f"{GOOD}  slot: [a]\n", "slot is a name, not a list"),
        (f"{GOOD}{GOOD}", "line 4: value at a is accepted already, at "),
        (f"{GOOD}  reason: again\n", "'reason' is there already, in line 3"),
        ("- {", "no valid YAML"),
        ("- !!python/object/apply:os.system [ls]", "written as `finding`"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_text(text)
    with pytest.raises(ReadError) as error:
        read_accepted(file)
    assert message in str(error.value) and str(file) in str(error.value) and "\n" not in str(error.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="the accept file cannot be read"):
        read_accepted(tmp_path / "nowhere.yaml")
    with pytest.raises(ReadError, match="item 1: an accepted difference without reason"):
        read_accepted([GOOD_ENTRY, {"finding": "value", "place": "b"}])


GOOD_ENTRY = {"finding": "value", "place": "a", "reason": "known", "step": 3, "expires": date(2030, 1, 1)}


def test_content_of_python_needs_no_file() -> None:
    (entry,) = read_accepted([GOOD_ENTRY])
    assert (entry.step, entry.expires) == ("3", "2030-01-01") and read_accepted(None) == ()


@pytest.mark.parametrize("head", ["", "# known differences\n", f"# one\n{GOOD}", json.dumps([GOOD_ENTRY], default=str)])
def test_an_entry_is_added_and_the_text_kept(tmp_path: Path, head: str) -> None:
    file = tmp_path / "folder" / "accepted.yaml"
    if head:
        file.parent.mkdir()
        file.write_text(head)
    before = 1 if "known" in head and "value" in head else 0
    add_accepted(file, ENTRY)
    assert read_accepted(file)[before:] == (ENTRY,)
    assert "#" not in head or file.read_text().startswith(head)
    with pytest.raises(ReadError, match="is accepted already"):
        add_accepted(file, ENTRY)
    assert len(read_accepted(file)) == before + 1


@pytest.mark.parametrize("text", ["finding: value\n", f"{GOOD}  why: x\n", "[1, 2", "- {"])
def test_nothing_is_added_to_a_wrong_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_text(text)
    with pytest.raises(MsprobeException) as error:
        add_accepted(file, ENTRY)
    assert str(file) in str(error.value) and file.read_text() == text


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"verdict": "same", "first_divergence": None}, "its verdict is same; only a difference can be accepted"),
        ({"verdict": "incomplete"}, "its verdict is incomplete"),
        ({"a": 1}, "give a file that msprobe compare --json wrote"),
        ([], "not a JSON object"),
    ],
)
def test_a_result_without_a_difference_gives_no_entry(tmp_path: Path, document: Any, message: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ReadError, match=message):
        entry_of(file, {"reason": "known"})


def test_uses_are_counted() -> None:
    entries = read_accepted([GOOD_ENTRY, {**GOOD_ENTRY, "place": "b", "expires": "2020-01-01"}])
    uses = uses_of(entries, [AcceptedFinding(0, "first"), AcceptedFinding(0, "second")])
    assert [(use.state, use.count, use.first) for use in uses] == [("used", 2, "first"), ("expired", 0, "")]
    assert "used twice" not in uses[0].text and "used 2 times, first for first" in uses[0].text
