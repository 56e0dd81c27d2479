"""What a configured summary mode asks for."""

from __future__ import annotations

import pytest

from msprobe.core.tensors.plan import ChecksumKind, StatsPlan


@pytest.mark.parametrize(
    ("mode", "statistics", "checksum"),
    [("statistics", True, None), ("md5", True, ChecksumKind.CRC32), ("xor", False, ChecksumKind.XOR)],
)
def test_summary_modes(mode: str, statistics: bool, checksum: ChecksumKind | None) -> None:
    plan = StatsPlan.for_summary_mode(mode, "high")
    assert (plan.statistics, plan.checksum, plan.precision) == (statistics, checksum, "high")


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(ValueError, match="summary_mode: 'sha1' is not one of statistics, md5, xor"):
        StatsPlan.for_summary_mode("sha1")
