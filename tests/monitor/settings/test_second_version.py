"""The configuration of ``TrainerMonitorV2``."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.monitor.settings.second_version import plan_of, read_second_version


def test_nothing_is_watched_without_sections() -> None:
    assert not plan_of(read_second_version({}), False).statistics


def test_a_section_watches_as_documented() -> None:
    settings = read_second_version({
        "monitors": {
            "module": {},
            "weight_grad": {"enabled": True, "monitor_mbs_grad": True, "grad_acc_steps": 4, "ops": ["norm"]},
            "optimizer": {"enabled": True, "mv_distribution": False},
            "param": {},
        }
    })
    plan = plan_of(settings, False)
    assert {source.name for source in plan.statistics} == {"actv", "actv_grad", "grad_unreduced", "grad_reduced"}
    assert plan.micro_steps == 4


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("format", "xlsx", ValueError),
        ("framework", "jax", ValueError),
        ("step_interval", 0, ValueError),
        ("output_dir", 3, TypeError),
        ("monitors", [], TypeError),
    ],
)
def test_wrong_values(key: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=key):
        read_second_version({key: value})


def test_a_wrong_rank_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert read_second_version({"rank": "all"}).rank == ()
    assert "rank" in caplog.text
    assert read_second_version({"rank": 3}).rank == (3,)
