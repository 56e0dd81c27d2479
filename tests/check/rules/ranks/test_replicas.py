"""Replicas, tied weights and data, for the roles that ranks can have."""

from __future__ import annotations

from msprobe.check.facts.step_facts import BatchTensor, Parameter
from msprobe.check.rules.ranks.replicas import replicas_apart, same_data, tied_apart
from tests.check.made_facts import collective, facts, module, parameter, run_of, tensor


def test_replicas_that_come_apart_beside_others_that_stay() -> None:
    first = facts(parameters={"a.weight": parameter(1.0, 1.1), "b.weight": parameter(2.0, 2.1)})
    second = facts(rank=1, parameters={"a.weight": parameter(1.0, 1.2), "b.weight": parameter(2.0, 2.1)})
    (found,) = replicas_apart(run_of(first, second))
    assert (found.parameter, found.step, found.ranks, found.certainty) == ("a.weight", 0, (0, 1), "certain")


def test_experts_and_shards_are_no_replicas() -> None:
    for name, more in (("experts.0.weight", {}), ("a.weight", {"sharded": True})):
        steps = [facts(rank=rank, parameters={name: parameter(1.0, 1.1 + rank, **more)}) for rank in (0, 1)]
        assert list(replicas_apart(run_of(*steps))) == []


def test_stages_with_equal_names_are_no_replicas() -> None:
    steps = [
        facts(
            rank=rank,
            parameters={"fc.weight": parameter(1.0, 1.1 + rank)},
            modules=[module("fc", 1.0, given=tensor(1.0 + rank))],
            collectives=[collective(("send", "recv")[rank], 1.0, 1.0, peer=1 - rank)],
        )
        for rank in (0, 1)
    ]
    assert list(replicas_apart(run_of(*steps))) == []


def test_a_bias_that_is_cut_begins_equal_and_is_no_replica() -> None:
    zero = tensor(0.0, 4)
    inside = collective("all_reduce", 1.0, 2.0, in_forward=True, module="block")
    steps = [
        facts(
            rank=rank,
            parameters={
                "up.weight": parameter(1.0 + rank, 1.5 + rank),
                "up.bias": Parameter(True, "up", "Linear", zero, tensor(0.1 + rank)),
                "norm.weight": Parameter(True, "norm", "LayerNorm", zero, tensor(0.1 + rank)),
            },
            collectives=[inside],
        )
        for rank in (0, 1)
    ]
    assert [found.parameter for found in replicas_apart(run_of(*steps))] == ["norm.weight"]


def test_tied_weights() -> None:
    tied = facts(shared=[["emb.weight", "out.weight"]], parameters={"emb.weight": parameter(1.0, 1.1)})
    apart = facts(step=1, shared=[], parameters={"emb.weight": parameter(1.1, 1.2)})
    (found,) = tied_apart(run_of(tied, apart))
    assert (found.rule, found.parameter, found.step) == ("tied_weights_apart", "out.weight", 1)
    assert list(tied_apart(run_of(tied))) == []


def test_same_data_only_where_ranks_are_replicas() -> None:
    def step(number: int, rank: int, norm: float, **more: object) -> object:
        batch = [BatchTensor("Functional.linear.0.forward.input.0", "fc", tensor(norm), 0)]
        more = {"has_backward": True, **more}
        return facts(number, rank, parameters={"a.weight": parameter(1.0, 1.0)}, batch=batch, **more)

    same = [step(number, rank, 1.0 + number) for number in (0, 1) for rank in (0, 1)]
    (found,) = same_data(run_of(*same))
    assert (found.rule, found.ranks, found.certainty) == ("same_data_on_ranks", (0, 1), "likely")
    other = [step(number, rank, 1.0 + number + rank) for number in (0, 1) for rank in (0, 1)]
    assert list(same_data(run_of(*other))) == []
    served = [step(number, rank, 1.0 + number, has_backward=False) for number in (0, 1) for rank in (0, 1)]
    assert list(same_data(run_of(*served))) == []  # servers that get the same requests
    inside = collective("all_reduce", 1.0, 2.0, in_forward=True, module="block")
    shared = [step(number, rank, 1.0 + number, collectives=[inside]) for number in (0, 1) for rank in (0, 1)]
    assert list(same_data(run_of(*shared))) == []


def test_a_rank_that_does_not_call_a_module_in_a_step_is_not_apart() -> None:
    def step(number: int, rank: int, used: float | None, left: float) -> object:
        return facts(number, rank, parameters={"a.weight": parameter(used, left)})

    every = [step(0, 0, 1.0, 2.0), step(1, 0, 2.0, 3.0), step(0, 1, None, 2.0), step(1, 1, 2.0, 3.0)]
    assert list(replicas_apart(run_of(*every))) == []
    apart = [*every[:3], step(1, 1, 2.0, 4.0)]
    assert [(one.rule, one.step) for one in replicas_apart(run_of(*apart))] == [("replicas_apart", 1)]


def test_replicas_that_never_were_equal_get_equal_gradients() -> None:
    def run(norms: tuple[float, float]) -> object:
        begins = {0: (1.0, 2.0), 1: (3.0, 4.0)}
        return run_of(
            *(
                facts(
                    0, rank, parameters={"a.weight": parameter(*begins[rank])}, gradients={"a.weight": [tensor(norm)]}
                )
                for rank, norm in enumerate(norms)
            )
        )

    (found,) = replicas_apart(run((0.5, 0.5)))
    assert (found.rule, found.step, found.parameter, found.ranks) == ("replicas_apart", 0, "a.weight", (0, 1))
    assert list(replicas_apart(run((0.5, 0.7)))) == []  # shards, or experts


def frozen(norm: float) -> Parameter:
    return Parameter(False, "fc", "Linear", tensor(norm, 4, 4), tensor(norm, 4, 4))


def test_a_frozen_copy_that_begins_apart_beside_equal_originals() -> None:
    steps = [
        facts(rank=rank, parameters={"net.fc.weight": parameter(1.0, 1.1), "teacher.fc.weight": frozen(3.0 + rank)})
        for rank in (0, 1)
    ]
    (found,) = replicas_apart(run_of(*steps))
    assert (found.parameter, found.certainty) == ("teacher.fc.weight", "likely")
    alone = [facts(rank=rank, parameters={"teacher.fc.weight": frozen(3.0 + rank)}) for rank in (0, 1)]
    assert list(replicas_apart(run_of(*alone))) == []


def test_a_router_before_the_exchange_is_a_replica_and_an_expert_behind_it_is_none() -> None:
    steps = [
        facts(
            rank=rank,
            parameters={
                "moe.gate.weight": Parameter(True, "moe.gate", "Linear", tensor(1.0), tensor(1.1 + rank)),
                "moe.ffn.weight": Parameter(True, "moe.ffn", "Linear", tensor(2.0), tensor(2.1 + rank)),
            },
            modules=[module("moe.gate", 1.0, place=1), module("moe.ffn", 1.0, place=5)],
            collectives=[collective("all_to_all_single", 1.0, 1.0, module="moe", place=3, in_forward=True)],
        )
        for rank in (0, 1)
    ]
    assert [found.parameter for found in replicas_apart(run_of(*steps))] == ["moe.gate.weight"]


def test_ones_and_zeros_alone_make_no_replicas() -> None:
    """Each rank trains a model of its own: they begin equal only with what every model begins with."""
    steps = [
        facts(
            rank=rank,
            parameters={
                "fc.weight": parameter(1.0 + rank, 1.5 + rank),
                "norm.weight": Parameter(True, "norm", "LayerNorm", tensor(0.0, 4), tensor(0.1 + rank)),
            },
        )
        for rank in (0, 1)
    ]
    assert list(replicas_apart(run_of(*steps))) == []
