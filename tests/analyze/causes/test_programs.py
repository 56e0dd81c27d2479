"""Two programs that differ in lines without a record: the line is named, whatever else was edited."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest

import msprobe
from msprobe.compare.rows.summary import FirstDivergence
from tests.fresh_debugger import forget
from tests.recordings import Recordings, copy_of

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger


def batch(step):
    rows = [[float(step + row + column) for column in range(6)] for row in range(5)]
    return torch.tensor(rows) / 7.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(4, 1)
        self.cell = nn.Linear(8, 8)

    def forward(self, x):
        h = self.up(x)
        turns = 3
        for turn in range(turns):
            h = torch.tanh(self.cell(h))
        part = h[:, :4]
        return self.down(part)


def main(folder):
    torch.manual_seed(0)
    net = Net()
    rate = 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    debugger = PrecisionDebugger({"dump_path": folder, "level": "mix", "task": "statistics"})
    for step in range(2):
        x = batch(step)
        debugger.start(net)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
"""
FAULTS = {
    "index": ("part = h[:, :4]", "part = h[:, 4:]"),
    "loop": ("turns = 3", "turns = 2"),
    "rate": ("rate = 0.1", "rate = 0.05"),
    "data": ("/ 7.0", "/ 9.0"),
    "numbers": ("float(step + row + column)", "float(step + row * column)"),
    "constructor": ("self.cell = nn.Linear(8, 8)", "self.cell = nn.Linear(8, 8, bias=False)"),
}
GIVEN = {"rate", "constructor"}
"""Faults in what a call is given: it stays the place of the difference."""
HARMLESS = (
    "self.up, self.down = nn.Linear(6, 8), nn.Linear(4, 1)",
    "self.up = nn.Linear(6, 8)\n        self.down = nn.Linear(4, 1)",
)
COMMENT = ("h = self.up(x)", "h = self.up(x)  # of the whole batch\n\n        # in turns")


LOSS = "        loss = net(x).square().mean()\n        loss.backward()\n"
RENAMED = (LOSS, LOSS.replace("loss", "cost"))
DESCRIBED = ("def main(folder):\n", 'def main(folder):\n    """Train in two steps."""\n')
MASKED = ("def forward(self, x):\n", "def forward(self, x, mask=False):\n        if mask:\n            x = x * 2.0\n")
WITH_MASK = (LOSS, LOSS.replace("net(x)", "net(\n            x,\n            mask=True,\n        )"))
WITHOUT_MASK = (LOSS, LOSS.replace("net(x)", "net(\n            x,\n        )"))


def record(folder: Path, *edits: tuple[str, str], name: str = "train.py") -> None:
    text = PROGRAM
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    forget()
    runpy.run_path(str(folder / name))["main"](str(folder / "dump"))
    forget()


def record_copy(folder: Path, *edits: tuple[str, str]) -> None:
    """Record the program under the name that its author gave to a copy."""
    record(folder, *edits, name="train_with_index.py")


def compared(target: Path, golden: Path) -> FirstDivergence:
    first = msprobe.compare(target / "dump", golden / "dump").summary.first_divergence
    assert first is not None
    return first


@pytest.mark.parametrize("beside", [(), (HARMLESS, COMMENT)], ids=["alone", "edited"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_that_differs_is_named(
    recordings: Recordings, fault: str, beside: tuple[tuple[str, str], ...]
) -> None:
    first = compared(recordings(record, FAULTS[fault], *beside), recordings(record))
    named = first.target_source if fault in GIVEN else first.source
    assert FAULTS[fault][1] in named, (first.calls, first.reason)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_is_copied_under_another_name(recordings: Recordings, fault: str) -> None:
    first = compared(recordings(record_copy, FAULTS[fault], HARMLESS), recordings(record))
    assert FAULTS[fault][1] in (first.target_source if fault in GIVEN else first.source), (first.calls, first.reason)


@pytest.mark.parametrize("longer", ["/a.py", "/z.py"])
def test_a_program_is_made_from_the_file_with_the_fewest_other_lines(
    recordings: Recordings, tmp_path: Path, longer: str
) -> None:
    golden = copy_of(recordings(record), tmp_path / "golden")
    for path in golden.rglob("source.json"):
        texts = json.loads(path.read_text(encoding="utf-8"))
        texts[longer] = PROGRAM + "\n".join(f"unused_{n} = {n}" for n in range(100))
        path.write_text(json.dumps(dict(sorted(texts.items()))), encoding="utf-8")
    assert FAULTS["loop"][1] in compared(recordings(record_copy, FAULTS["loop"], HARMLESS), golden).source


@pytest.mark.parametrize("beside", [(), (COMMENT,)], ids=["alone", "edited"])
def test_a_line_that_the_target_lacks_is_named_where_it_goes_on(
    recordings: Recordings, beside: tuple[tuple[str, str], ...]
) -> None:
    after, lost = "        loss = net(x)", "x = x[:, [1, 0, 2, 4, 3, 5]]"
    first = compared(recordings(record, *beside), recordings(record, (after, f"        {lost}\n{after}")))
    assert "loss = net(x)" in first.source, first.calls
    assert f"before this line the golden program has `{lost}`, which the target lacks" in first.reason


def test_comments_are_no_difference(recordings: Recordings) -> None:
    target = recordings(record, COMMENT)
    assert msprobe.compare(target / "dump", recordings(record) / "dump").verdict == "same"
    first = compared(recordings(record, COMMENT, FAULTS["data"]), recordings(record))
    assert FAULTS["data"][1] in first.source


def test_other_names_and_docstrings_are_no_difference(recordings: Recordings) -> None:
    first = compared(recordings(record, RENAMED, DESCRIBED, FAULTS["data"]), recordings(record))
    assert FAULTS["data"][1] in first.source, (first.calls, first.reason)


def test_a_name_of_a_library_is_no_other_name(recordings: Recordings) -> None:
    other = ("h = torch.tanh(self.cell(h))", "h = torch.sigmoid(self.cell(h))")
    first = compared(recordings(record, other, RENAMED), recordings(record))
    assert other[1] in first.source, (first.calls, first.reason)


def test_a_line_in_the_place_of_a_call_is_named(recordings: Recordings) -> None:
    other = ("h = torch.tanh(self.cell(h))", "h = self.cell(h)")
    first = compared(recordings(record, other, ("turns = 3", "turns = 1 + 2")), recordings(record))
    assert other[1] in (first.target_source or first.source), (first.calls, first.reason)


def test_an_argument_that_a_statement_lacks_is_named(recordings: Recordings) -> None:
    """The call of the library that the golden run alone makes is inside of what the statement calls."""
    first = compared(recordings(record, MASKED, WITHOUT_MASK), recordings(record, MASKED, WITH_MASK))
    assert "before this line the golden program has `mask=True,`" in first.reason, (first.calls, first.reason)


def test_nothing_is_said_of_lines_without_the_files(recordings: Recordings, tmp_path: Path) -> None:
    target, golden = recordings(record, FAULTS["data"], ("rate = 0.1", "rate = 0.100")), recordings(record)
    target = Path(shutil.copytree(target, tmp_path / "target"))
    for path in target.rglob("source.json"):
        path.write_text("[1, 2", encoding="utf-8")
    first = compared(target, golden)
    assert "the programs differ in this line" not in first.reason


@pytest.mark.parametrize("text", ["(" * 10_000, 'x = "\\d"\n%matplotlib inline\n', "def f(:\n    pass\n", "\0"])
def test_files_that_are_no_python_are_compared_by_their_lines(
    recordings: Recordings, tmp_path: Path, text: str, recwarn: pytest.WarningsRecorder
) -> None:
    target = Path(shutil.copytree(recordings(record, FAULTS["data"]), tmp_path / "target"))
    for path in target.rglob("source.json"):
        own = {name: content + text for name, content in json.loads(path.read_text(encoding="utf-8")).items()}
        path.write_text(json.dumps(own), encoding="utf-8")
    assert compared(target, recordings(record)).module is None
    assert not [warning for warning in recwarn if issubclass(warning.category, SyntaxWarning)]


def test_a_file_without_code_is_no_error(recordings: Recordings, tmp_path: Path) -> None:
    target = Path(shutil.copytree(recordings(record, FAULTS["data"]), tmp_path / "target"))
    for path in target.rglob("source.json"):
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"/a/empty.py": "# nothing\n"}))
    assert FAULTS["data"][1] in compared(target, recordings(record)).source
