"""The thresholds that the first steps fit to each API."""

from __future__ import annotations

from msprobe.online.published_check import Preheat


def test_the_first_step_counts_and_the_others_take_their_share() -> None:
    preheat = Preheat(steps=2, most=3)
    assert not any(preheat.wants("mul") for _ in range(9))
    preheat.end_step()
    for _ in range(2):
        assert sum(preheat.wants("mul") for _ in range(9)) == 3  # ceil(9 / 2), and at most 3
        assert not preheat.wants("never counted")
        preheat.end_step()
    assert not preheat.wants("mul")


def test_where_right_and_wrong_separate_the_least_wrong_is_the_threshold() -> None:
    preheat = Preheat(steps=5, most=20)
    for ratio, agrees in ((1.1, True), (1.2, True), (1.5, False), (1.7, False)):
        preheat.note("exp", ratio, agrees)
    assert preheat.threshold("exp") == 2.05
    preheat.end_step()
    assert preheat.threshold("exp") == 1.5


def test_where_all_agree_the_threshold_halves_or_doubles() -> None:
    preheat = Preheat(steps=5, most=20)
    preheat.note("exp", 1.1, True)
    preheat.end_step()
    assert abs(preheat.threshold("exp") - 1.525) < 1e-12
    preheat.note("exp", 1.6, True)
    preheat.end_step()
    assert abs(preheat.threshold("exp") - 2.05) < 1e-12


def test_where_they_do_not_separate_nothing_changes() -> None:
    preheat = Preheat(steps=5, most=20)
    preheat.note("exp", 1.6, True)
    preheat.note("exp", 1.4, False)
    preheat.end_step()
    assert preheat.threshold("exp") == 2.05
    assert preheat.threshold("never seen") == 1.0
