"""A run that ended early is said to be so, with the call and the line where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.analyze.overflow import check_overflow
from msprobe.compare.comparison import compare_dumps
from msprobe.compare.records.entries import Absence
from msprobe.compare.records.run_end import end_notes, ended_early
from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.report.summary_text import summary_text
from tests.compare.dumps import call, tensor, write

NAMES = [f"Torch.op{k}.0.forward" for k in range(4)]
ERROR = "RuntimeError: out of memory"


def run(folder: Path, names: list[str], end: dict[str, Any] | None, raised: tuple[str, ...] = ()) -> Path:
    data = {name: call([tensor()], [tensor(2.0 if name.startswith("Module") else 1.0)]) for name in names}
    for name in raised:
        data[name] = {"input_args": [tensor()], "input_kwargs": {}, "error": ERROR}
    stack = {name: [f"File /src/net.py, line {k}, in forward, \n x = op{k}(x)"] for k, name in enumerate(data)}
    write(folder, data, stack=stack)
    document = folder / "dump.json"
    content = json.loads(document.read_text())
    document.write_text(json.dumps({**({"end": end} if end is not None else {}), **content}))
    return folder


def load(folder: Path) -> Dump:
    return load_dump(find_dumps(folder)[0])


def test_an_exception_is_told_with_its_call_and_line(tmp_path: Path) -> None:
    dead = run(
        tmp_path / "t", NAMES[:1], {"by": "exception", "error": ERROR}, raised=(NAMES[1], "Module.m.M.forward.0")
    )
    golden = run(tmp_path / "g", NAMES, {"by": "stop"})
    sentence = f"the target ended early ({ERROR}) in {NAMES[1]} (/src/net.py:1 in forward: x = op1(x))"
    assert end_notes(load(dead), load(golden)) == [sentence]
    result = msprobe.compare(dead, golden)
    assert sentence in result.summary.reason and sentence in result.summary.incomplete
    assert sentence in diff_analyze(dead, golden, tmp_path / "o").incomplete
    assert any(f"ended early ({ERROR}) in {NAMES[1]}" in line for line in check_overflow(dead).lines)


def test_calls_behind_an_exception_are_not_missing(tmp_path: Path) -> None:
    dead = run(tmp_path / "t", NAMES[:2], {"by": "exception", "error": ERROR})
    result = msprobe.compare(dead, run(tmp_path / "g", NAMES, {"by": "stop"}))
    assert result.verdict != "diverged" and f"after {NAMES[1]}" in result.summary.reason


def test_a_program_that_exits_early_says_after_which_call(tmp_path: Path) -> None:
    dead = run(tmp_path / "t", NAMES[:2], {"by": "exit"})
    result = msprobe.compare(dead, run(tmp_path / "g", NAMES, {"by": "stop"}))
    text = summary_text(result.summary)
    assert "the target ended early (its program exited) after Torch.op1.0.forward (/src/net.py:1" in text


@pytest.mark.parametrize(("end", "said"), [("exception", False), ("exit", False), ("stop", True)])
def test_what_a_run_had_no_time_for_is_not_said(end: str, said: bool, tmp_path: Path) -> None:
    """A run that ends in its forward pass calls neither ``backward`` nor ``step``."""
    short, whole = run(tmp_path / "t", NAMES[:2], {"by": end}), run(tmp_path / "g", NAMES, {"by": "stop"})
    document = json.loads((whole / "dump.json").read_text())
    frame = "File /src/net.py, line 9, in main, \n loss.backward()"
    step = {"optimizer": 0, "class": "SGD", "groups": [{"lr": 0.1, "parameters": ["weight"]}]}
    document |= {"gradient_calls": [{"call": "backward", "stack": [frame]}], "optimizers": [step]}
    (whole / "dump.json").write_text(json.dumps(document))
    for pair in ((short, whole), (whole, short)):
        reason = msprobe.compare(*pair).summary.reason
        assert ("`backward` is called in the" in reason, "1 step of SGD is made in the" in reason) == (said, said)


@pytest.mark.parametrize("ends", [("exit", "exit"), ("stop", "stop"), ("step", "exit"), (None, None)])
def test_an_orderly_end_excuses_nothing(ends: tuple[str | None, str | None], tmp_path: Path) -> None:
    """A script without ``stop`` ends by its exit in both runs; what the target lacks there is not judged, or lost."""
    target, golden = (None if end is None else {"by": end} for end in ends)
    short, whole = run(tmp_path / "t", NAMES[:2], target), run(tmp_path / "g", NAMES, golden)
    assert not ended_early(load(short), load(whole))
    left_out = [text for text in msprobe.compare(short, whole).summary.incomplete if "not judged" in text]
    assert len(left_out) == 1 and "2 calls that only the golden run" in left_out[0] and NAMES[2] in left_out[0]
    absences = [pair.absence for pair in compare_dumps(load(short), load(whole)).table.entries]
    assert absences == [None, None, Absence.NOT_SHOWN, Absence.NOT_SHOWN]
    with_module = run(tmp_path / "m", [*NAMES, "Module.head.Head.forward.0"], golden)
    assert msprobe.compare(short, with_module).verdict == "diverged"


@pytest.mark.parametrize("end", [3, [], {"by": 4}, {"by": "exception", "error": 7}, {"by": None}])
def test_a_damaged_end_is_no_traceback(end: Any, tmp_path: Path) -> None:
    both = run(tmp_path / "t", NAMES, end), run(tmp_path / "g", NAMES, {"by": "stop"})
    assert msprobe.compare(*both).verdict in ("same", "incomplete")
