"""Every function that is replaced says of itself what its original says, at every level."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from mindspore import nn

from tests.adapters.replaced_functions import kept_faults, replaced_places

pytestmark = pytest.mark.filterwarnings("ignore")  # MindSpore says which of its names are old


@pytest.mark.parametrize(("level", "at_least"), [("L0", 10), ("L1", 1500), ("mix", 1500)])
def test_functions_are_as_without_the_tool(level: str, at_least: int, bench: Any) -> None:
    model = nn.Dense(2, 2)
    debugger = bench.open(level, risk_level="ALL")
    start = functools.partial(debugger.start, model)
    places = replaced_places("mindspore", start, debugger.stop)
    assert len(places) >= at_least
    assert kept_faults(places, start, debugger.stop) == []
