"""What ranks are to each other follows from their collectives and parameters."""

from __future__ import annotations

from msprobe.check.facts.roles import Roles
from tests.check.made_facts import collective, facts, module, parameter, run_of


def test_ranks_that_communicate_inside_modules_share_layers() -> None:
    inside = collective("all_reduce", 1.0, 2.0, in_forward=True, module="block")
    assert Roles(run_of(facts(collectives=[inside]), facts(rank=1))).share_layers([0, 1])
    behind = inside._replace(in_forward=False)
    assert not Roles(run_of(facts(collectives=[behind]), facts(rank=1))).share_layers([0, 1])


def test_a_synchronised_batch_norm_shares_no_layer() -> None:
    inside = collective("all_gather", 1.0, 2.0, in_forward=True, module="bn")
    norm = module("bn", 1.0, kind="SyncBatchNorm")
    assert not Roles(run_of(facts(collectives=[inside], modules=[norm]), facts(rank=1))).share_layers([0, 1])


def test_experts_and_stages() -> None:
    exchange = collective("all_to_all_single", 1.0, 1.0, in_forward=True, module="moe")
    roles = Roles(run_of(facts(collectives=[exchange])))
    assert roles.is_expert("moe.own.weight")
    assert roles.is_expert("layers.0.experts.1.weight")
    assert not roles.is_expert("router.weight")
    assert not roles.has_stages
    assert Roles(run_of(facts(collectives=[collective("send", 1.0, 1.0, peer=1)]))).has_stages


def test_where_parameters_begin_equal_and_come_apart() -> None:
    steps = [
        facts(step, rank, parameters={"a": parameter(1.0 + step, 2.0 + step + (rank if step else 0))})
        for step in (0, 1)
        for rank in (0, 1)
    ]
    roles = Roles(run_of(*steps))
    assert roles.begin_equal("a") == [(0, 1)]
    assert roles.apart_at("a", (0, 1)) == (1, 1)
    assert not roles.in_step("a", (0, 1))
