"""Which operators a running check takes."""

from __future__ import annotations

from msprobe.online.sampling import GRACE, Sampler, Sampling


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_calls_of_each_kind() -> None:
    sampler = Sampler(Sampling(first=2), Clock())
    taken = [sampler.wants("mm.default", signature) for signature in (1, 1, 1, 2)]
    assert taken == [True, True, False, True]


def test_checks_keep_to_their_share_of_the_time() -> None:
    clock = Clock()
    sampler = Sampler(Sampling(first=100, share=0.1), clock)
    assert sampler.wants("mm.default", 1)
    clock.now = GRACE + 1.0
    sampler.end_check()
    assert not sampler.wants("mm.default", 1)
    clock.now = 11.0
    assert sampler.wants("mm.default", 1)
    assert sampler.skipped == 1


def test_operators_without_values_and_those_not_chosen() -> None:
    assert not Sampler(Sampling()).wants("empty_like.default", 1)
    chosen = Sampler(Sampling(operators=("mm", "add.Tensor")))
    assert [chosen.wants(name, 1) for name in ("mm.default", "add.Tensor", "add.Scalar")] == [True, True, False]
