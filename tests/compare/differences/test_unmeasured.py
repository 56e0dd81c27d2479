"""A tensor without numbers is never equal: it is left unchecked, also where both records read the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

STATISTICS = ("Max", "Min", "Mean", "Norm")
XOR = "0x8388158f0164ddb3"


def bare(*shape: int | None, **more: Any) -> dict[str, Any]:
    """A tensor leaf without statistics."""
    leaf = {key: value for key, value in tensor().items() if key not in STATISTICS}
    return leaf | {"shape": list(shape)} | more


NULL = dict.fromkeys(STATISTICS)
MEASURED: dict[str, dict[str, Any]] = {
    "statistics": tensor(),
    "statistics_null": tensor(),
    "md5": tensor(md5="0ba0bb94"),
    "xor": bare(4, 8, md5=XOR),
}
LACKING: dict[str, dict[str, Any]] = {
    "statistics": bare(4, 8),
    "statistics_null": bare(4, 8, **NULL),
    "md5": bare(4, 8, **NULL, md5=None),
    "xor": bare(4, 8, md5=None),
}


def both(tmp_path: Path, leaf: dict[str, Any], other: dict[str, Any], first: dict[str, Any]) -> Any:
    """Compare two dumps that agree in ``first`` and hold ``leaf`` and ``other``."""
    for name, own in (("a", leaf), ("b", other)):
        data = {"Torch.relu.0.forward": call([first], [first]), "Torch.abs.0.forward": call([own], [own])}
        write(tmp_path / name, data)
    return msprobe.compare(tmp_path / "a", tmp_path / "b").summary


@pytest.mark.parametrize("kind", sorted(LACKING))
def test_equal_records_without_numbers_are_unchecked(tmp_path: Path, kind: str) -> None:
    summary = both(tmp_path, LACKING[kind], LACKING[kind], MEASURED[kind])
    assert (summary.counts.warning, summary.counts.error) == (2, 0)


@pytest.mark.parametrize("kind", sorted(LACKING))
def test_a_tensor_without_elements_needs_none(tmp_path: Path, kind: str) -> None:
    empty = LACKING[kind] | {"shape": [0, 8]}
    assert both(tmp_path, empty, empty, MEASURED[kind]).counts.warning == 0


def test_a_length_that_is_not_known(tmp_path: Path) -> None:
    """Nested tensors have one: it is judged like any other, and unmeasured it is unchecked."""
    ours, theirs = (bare(2, None, 8) | {key: tensor(scale)[key] for key in STATISTICS} for scale in (1.0, 1.5))
    assert both(tmp_path, ours, theirs, tensor()).verdict == "diverged"
    assert both(tmp_path, ours, ours, tensor()).counts.warning == 0
    assert both(tmp_path, bare(2, None, 8), bare(2, None, 8), tensor()).counts.warning == 2


def test_a_damaged_shape_does_not_speak_for_others(tmp_path: Path) -> None:
    """``[false, 8]`` equals ``[0, 8]``, so whatever is kept of the one serves for the other."""
    for shape in ([False, 8], [0.0, 8], [0, 8]):
        empty = LACKING["statistics"] | {"shape": shape}
        assert both(tmp_path, empty, empty, MEASURED["statistics"]).counts.warning == 0
