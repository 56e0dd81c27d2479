"""Values of different kinds are not compared: not comparable is said, never diverged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

KINDS: dict[str, dict[str, Any]] = {
    "statistics": {},
    "md5": {"md5": "0ba0bb94"},
    "xor": {"md5": "0x8388158f0164ddb3"},
}


def _dump(folder: Path, kind: str) -> Path:
    leaf = tensor(**KINDS[kind])
    return write(folder / kind, {"Torch.relu.0.forward": call([leaf], [leaf])})


@pytest.mark.parametrize(("ours", "theirs"), [("statistics", "md5"), ("xor", "statistics"), ("md5", "xor")])
def test_different_kinds_are_not_comparable(tmp_path: Path, ours: str, theirs: str) -> None:
    summary = msprobe.compare(_dump(tmp_path, ours), _dump(tmp_path, theirs)).summary
    assert summary.verdict == "not_comparable"
    assert "use one summary_mode" in summary.reason


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_equal_kinds_are_comparable(tmp_path: Path, kind: str) -> None:
    assert msprobe.compare(_dump(tmp_path / "a", kind), _dump(tmp_path / "b", kind)).summary.verdict == "same"


@pytest.mark.parametrize("turned", [False, True], ids=["saved-first", "calls-first"])
def test_saved_values_and_calls_are_not_comparable(tmp_path: Path, turned: bool) -> None:
    sides = [write(tmp_path / "saved", {"x.0.debug": tensor()}), _dump(tmp_path, "statistics")]
    assert msprobe.compare(sides[0], sides[0]).verdict == "same"
    summary = msprobe.compare(*(sides[::-1] if turned else sides)).summary
    assert summary.verdict == "not_comparable" and "give two of one kind" in summary.reason
