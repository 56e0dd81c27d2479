"""The page about notebooks, run as the cells of one, with a cell that is interrupted."""

from __future__ import annotations

import atexit
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fresh_debugger import forget
from tests.rules.tree import ROOT

pytest.importorskip("torch")
interactive = pytest.importorskip("IPython.core.interactiveshell")
pytestmark = pytest.mark.torch

PAGE = ROOT / "docs" / "guide" / "notebook.md"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    forget()
    quiet = pytest.importorskip("traitlets.config").Config({"HistoryManager": {"enabled": False}})
    shell = interactive.InteractiveShell(config=quiet)
    yield shell
    atexit.unregister(shell.atexit_operations)
    forget()
    monkeypatch.delattr(sys, "last_value", raising=False)


def cells() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def ends(folder: Path) -> list[str]:
    paths = sorted(folder.glob("step*/*/dump.json"))
    return [json.loads(path.read_text(encoding="utf-8"))["end"]["by"] for path in paths]


def test_the_page_runs_as_cells(shell: Any, tmp_path: Path) -> None:
    for cell in cells():
        shell.run_cell(cell).raise_error()
    card = shell.display_formatter.format(shell.user_ns["result"])[0]["text/html"]
    assert "DIVERGED" in card
    assert ends(tmp_path / "run_good") == ends(tmp_path / "run_bad") == ["stop", "stop"]


@pytest.mark.filterwarnings("ignore")
def test_a_cell_that_is_interrupted_runs_again(shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell(
        "import torch\nfrom msprobe.pytorch import PrecisionDebugger\nmodel = torch.nn.Linear(2, 2)\n"
        "debugger = PrecisionDebugger(dump_path='run', level='mix')"
    ).raise_error()
    cell = (
        "for number in range(2):\n    debugger.start(model)\n    model(torch.ones(1, 2)).sum().backward()\n"
        "    if number == {stop}: raise KeyboardInterrupt\n    debugger.stop(); debugger.step()"
    )
    shell.run_cell(cell.format(stop=1))
    shell.run_cell(cell.format(stop=-1)).raise_error()
    assert ends(tmp_path / "run") == ["stop", "exception", "stop", "stop"]
    assert "step 1 is closed: interrupted by KeyboardInterrupt; the next step is 2" in capsys.readouterr().out
