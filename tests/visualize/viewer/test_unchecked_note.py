"""What a comparison left out stands above the picture: no colour tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.compare.levels import record_levels
from tests.recordings import Recordings
from tests.visualize.viewer.sources import from_the_file

pytestmark = [pytest.mark.torch, pytest.mark.browser, pytest.mark.slow]
CALL = "Functional.leaky_relu.0.forward"


@from_the_file
def test_the_page_says_it(view: Any, recordings: Recordings, tmp_path: Path) -> None:
    runs = recordings(record_levels)
    page = view(visualize(Request(target=runs / "good_L0", golden=runs / "good_mix", output=tmp_path / "out")))
    assert "the target was recorded at level L0, which has no functions" in page.text("#left-out")
    assert page.all("#verdict-error") == page.all("#verdict-unmatched") == []
    page.click("#verdict-not_compared")
    page.until(lambda: page.lines, lambda lines: CALL in lines)
    equal = view(visualize(Request(target=runs / "good_L0", golden=runs / "good_L0", output=tmp_path / "equal")))
    assert equal.all("#left-out") == []
