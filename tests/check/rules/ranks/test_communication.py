"""Ranks of a group make the same collectives, and get what was given."""

from __future__ import annotations

from msprobe.check.facts.step_facts import Collective
from msprobe.check.rules.ranks.communication import different_calls, exchanged_sizes, wrong_results
from tests.check.made_facts import collective, facts, run_of, tensor


def pair(first: list[Collective], second: list[Collective]) -> object:
    return run_of(facts(collectives=first), facts(rank=1, collectives=second))


def test_equal_calls_are_right() -> None:
    run = pair([collective("all_reduce", 1.0, 3.0)], [collective("all_reduce", 2.0, 3.0)])
    assert [*different_calls(run), *exchanged_sizes(run), *wrong_results(run)] == []


def test_another_order_is_named_once() -> None:
    run = pair(
        [collective("all_reduce", 1.0, 3.0), collective("broadcast", 1.0, 1.0)],
        [collective("broadcast", 1.0, 1.0), collective("all_reduce", 2.0, 3.0)],
    )
    (found,) = different_calls(run)
    assert "rank 0 calls all_reduce where rank 1 calls broadcast" in found.reason


def test_a_call_that_one_rank_alone_makes() -> None:
    run = pair([collective("all_reduce", 1.0, 3.0)], [])
    (found,) = different_calls(run)
    assert (found.rank, found.call) == (0, "Distributed.all_reduce.0.forward")
    assert "rank 1 makes no such call" in found.reason


def test_other_shapes_and_dtypes() -> None:
    small = collective("all_reduce", 1.0, 3.0, given=(tensor(1.0, 2),))
    half = collective("all_reduce", 1.0, 3.0, given=(tensor(1.0, dtype="float16"),))
    for other, said in ((small, "shape [4] on rank 0 and [2]"), (half, "float32 on rank 0 and float16")):
        (found,) = different_calls(pair([collective("all_reduce", 1.0, 3.0)], [other]))
        assert said in found.reason


def test_a_group_that_is_not_wholly_recorded_is_not_judged() -> None:
    run = pair([collective("all_reduce", 1.0, 3.0, group=(0, 5))], [])
    assert list(different_calls(run)) == []


def test_sizes_of_an_exchange() -> None:
    right = [collective("all_to_all_single", 1.0, 1.0, sizes_in=(2, 4), sizes_out=(2, 3)),
             collective("all_to_all_single", 1.0, 1.0, sizes_in=(3, 3), sizes_out=(4, 3))]  # fmt: skip
    assert list(exchanged_sizes(pair(right[:1], right[1:]))) == []
    wrong = right[1]._replace(sizes_out=(2, 3))
    (found,) = exchanged_sizes(pair(right[:1], [wrong]))
    assert "rank 0 sends 4 rows to rank 1, which expects 2 rows" in found.reason


def test_results_that_differ_or_do_not_add_up() -> None:
    unlike = pair([collective("all_reduce", 1.0, 3.0)], [collective("all_reduce", 2.0, 2.5)])
    (found,) = wrong_results(unlike)
    assert "get different results" in found.reason
    lost = pair([collective("all_reduce", 1.0, 2.0)], [collective("all_reduce", 2.0, 2.0)])
    (found,) = wrong_results(lost)
    assert "not the sum" in found.reason
    averaged = pair([collective("all_reduce", 1.0, 1.5)], [collective("all_reduce", 2.0, 1.5)])
    assert list(wrong_results(averaged)) == []


def test_what_arrives_is_what_was_sent() -> None:
    sent = collective("send", 1.0, 1.0, peer=1)
    for got, count in ((1.0, 0), (1.2, 1)):
        run = pair([sent], [collective("recv", 0.0, got, given=(), peer=0)])
        assert len(list(wrong_results(run))) == count
