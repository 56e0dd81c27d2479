"""A mask of truth values against one of numbers neither alarms nor hides a fault in a layer that gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.regions.mask_programs import LINES, MODULES, record
from tests.recordings import Recordings

PROGRAM = Path(__file__).with_name("mask_programs.py")


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_the_form_of_a_mask_is_no_difference(recordings: Recordings, level: str) -> None:
    one, other = (recordings(record, ways, level) for ways in ("kernel copied", ""))
    assert [msprobe.compare(*pair).verdict for pair in ((one, other), (other, one))] == ["same", "same"]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("beside", ["", "kernel", "copied"])
@pytest.mark.parametrize("fault", sorted(LINES))
def test_a_fault_in_a_layer_is_named_whatever_the_mask(recordings: Recordings, fault: str, beside: str) -> None:
    wrong, right = recordings(record, f"{fault} {beside}".strip(), "mix"), recordings(record, "", "mix")
    check(fault, wrong, right)
    check(fault, right, wrong)


@pytest.mark.parametrize("fault", ["sibling", "overwritten"])
def test_modules_alone_name_it_too(recordings: Recordings, fault: str) -> None:
    wrong, right = (recordings(record, ways, "L0") for ways in (f"{fault} kernel", ""))
    check(fault, wrong, right)
    check(fault, right, wrong)


def check(fault: str, target: Path, golden: Path) -> None:
    """Assert that module and line of a fault are named."""
    result = msprobe.compare(target, golden)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    assert (found.module or "").rpartition(".")[0] in MODULES[fault], found.reason
    texts = PROGRAM.read_text(encoding="utf-8").splitlines()
    lines = {number for number, text in enumerate(texts, 1) if text.endswith(LINES[fault])}
    assert any(f"{PROGRAM.name}:{number} " in (found.source or "") for number in lines), found.source
