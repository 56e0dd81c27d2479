"""A real run of several steps in the page: steps switch, and pairs made by hand are judged when drawn again."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.cli.main import run
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings
from tests.visualize.databases import read
from tests.visualize.viewer.sources import from_both, from_the_file
from tests.visualize.viewer.test_browser import downloaded

pytestmark = [pytest.mark.torch, pytest.mark.browser, pytest.mark.slow]
OURS, THEIRS = "Module.net.up.Linear.forward.0", "Module.net.raise.Linear.forward.0"


def record(folder: Path, name: str, wrong: bool) -> None:
    """Two steps; the wrong run scales a weight before the second one."""
    forget()
    torch.manual_seed(0)
    net = nn.Sequential(OrderedDict([(name, nn.Linear(4, 8)), ("act", nn.Tanh()), ("down", nn.Linear(8, 2))]))
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    model = nn.ModuleDict({"net": net})
    for step in range(2):
        if step and wrong:
            with torch.no_grad():
                net[0].weight *= 2
        debugger.start(model)
        net(torch.ones(3, 4)).mean().backward()
        debugger.stop()
        debugger.step()
    forget()


def drawn(bad: Path, good: Path, output: Path, *more: object) -> Path:
    words = ["-tp", bad, "-gp", good, "-o", output, *more]
    assert run(["graph_visualize", *map(str, words)]) == 0
    (path,) = output.iterdir()
    return path


@from_both
def test_the_page_opens_in_the_step_that_differs_and_switches(
    view: Any, recordings: Recordings, tmp_path: Path
) -> None:
    good, bad = recordings(record, "up", False), recordings(record, "up", True)
    page = view(drawn(bad, good, tmp_path / "out"))
    step = "return document.querySelector('#step').value"
    assert page.run(step) == "1"
    assert page.selected.startswith((OURS, "Functional.linear.0"))
    page.choose("#step", "0")
    page.until(lambda: page.driver.current_url, lambda url: "step=0" in url)
    page.until(lambda: page.all("#verdict-same"), bool)
    assert page.all("#verdict-error") == []
    page.press("s")
    cells = page.until(lambda: page.all(".grid button"), lambda found: len(found) == 2)
    cells[1].click()
    page.until(lambda: page.run(step), lambda value: value == "1")
    page.until(lambda: page.all("#verdict-error"), bool)


@from_the_file
def test_an_exported_mapping_pairs_when_the_graph_is_drawn_again(
    view: Any, recordings: Recordings, tmp_path: Path
) -> None:
    good, bad = recordings(record, "raise", False), recordings(record, "up", True)
    before = drawn(bad, good, tmp_path / "before")
    assert read(before).verdicts(step=1)[OURS] == "unmatched"
    page = view(before, link=f"#step=1&node={OURS}&tab=match")
    page.click(f".candidate[data-name='{THEIRS}']")
    page.until(lambda: page.all("#export"), bool)
    mapping = tmp_path / "layers.yaml"
    mapping.write_text(downloaded(page))
    page.press("u")
    after = read(drawn(bad, good, tmp_path / "after", "-lm", mapping))
    assert (after.verdicts(step=0)[OURS], after.verdicts(step=1)[OURS]) == ("same", "error")
