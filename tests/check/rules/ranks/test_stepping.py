"""Optimizers of several ranks: as many steps, the same rates, and one factor for all shards."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Update
from msprobe.check.rules.ranks.stepping import different_steps, shards_scaled_apart
from tests.check.made_facts import collective, facts, parameter, run_of, tensor

NAMES = ("a.weight", "b.weight")


def update(rate: float = 0.1, gets: float = 1.0) -> Update:
    gradients = {name: tensor(gets, 4, 4) for name in NAMES}
    return Update(0, "Adam", (rate,), NAMES, gradients, (), (), 0, 9, (), dict.fromkeys(NAMES, rate))


def ranks(*updates: list[Update], sharded: bool = False, **more: Any) -> RunFacts:
    state = parameter(1.0, 1.1, sharded=sharded)
    every = [
        facts(
            rank=rank, updates=made, has_backward=True, parameters=dict.fromkeys(NAMES, state),
            gradients={name: [tensor(2.0, 4, 4)] for name in NAMES}, **more,
        )
        for rank, made in enumerate(updates)
    ]  # fmt: skip
    return run_of(*every)


@pytest.mark.parametrize(
    ("own", "other", "told"),
    [
        ([update()], [update()], ""),
        ([update()], [], "optimizers step 1 times on rank 0 and 0 times on rank 1"),
        ([update(0.1)], [update(0.2)], "a rate of 0.1 on rank 0 and of 0.2 on rank 1"),
        ([update(0.1)], [update(0.1 * (1 + 1e-9))], ""),
    ],
)
def test_ranks_that_train_one_model_step_alike(own: list[Update], other: list[Update], told: str) -> None:
    found = list(different_steps(ranks(own, other)))
    assert [told in one.reason for one in found] == [True] * bool(told)


def test_stages_may_have_rates_of_their_own() -> None:
    sent = [collective("send", 1.0, 1.0, peer=1)]
    assert list(different_steps(ranks([update(0.1)], [update(0.2)], collectives=sent))) == []


@pytest.mark.parametrize(
    ("own", "other", "sharded", "told"), [(1.0, 1.0, True, 0), (1.0, 0.8, True, 1), (1.0, 0.8, False, 0)]
)
def test_shards_are_clipped_by_one_factor(own: float, other: float, sharded: bool, told: int) -> None:
    run = ranks([update(gets=own)], [update(gets=other)], sharded=sharded)
    assert len(list(shards_scaled_apart(run))) == told
