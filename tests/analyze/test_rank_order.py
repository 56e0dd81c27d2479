"""Ranks are ordered by what they give and take, not by the positions of their entries."""

from dataclasses import replace
from typing import Any

import pytest

from msprobe.analyze.communication import Exchange, exchanges
from msprobe.analyze.rank_order import Event, RankFinding, earliest, order_events


def number(value: int) -> dict[str, Any]:
    return {"type": "int", "value": value}


def group(*ranks: int) -> dict[str, Any]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "0"}


def call(name: str, *args: Any, **kwargs: Any) -> tuple[str, Any]:
    return f"Distributed.{name}.forward", {"input_args": [{"dtype": "torch.float32"}, *args], "input_kwargs": kwargs}


def compute(count: int = 1) -> list[tuple[str, Any]]:
    return [(f"Torch.add.{at}.forward", {}) for at in range(count)]


def program(rank: int, entries: list[tuple[str, Any]]) -> list[Exchange]:
    return exchanges(rank, ((at, *entry) for at, entry in enumerate(entries)))


def order(programs: dict[int, list[tuple[str, Any]]], events: dict[int, Event]) -> list[tuple[int, bool]]:
    """Ranks of the events in their order, and whether nothing happened before."""
    found = {rank: program(rank, entries) for rank, entries in programs.items()}
    return [(standing.rank, standing.first) for standing in order_events(found, events)]


PAIRS = {
    "all_reduce": ([call("all_reduce.0")], [call("all_reduce.0")]),
    "broadcast_from_1": ([call("broadcast.0", number(1))], [call("broadcast.0", number(1))]),
    "reduce_to_0": ([call("reduce.0", dst=number(0))], [call("reduce.0", dst=number(0))]),
    "recv_from_1": ([call("recv.0", src=number(1))], [call("send.0", dst=number(0))]),
    "irecv_from_1": ([call("irecv.0", number(1))], [call("isend.0", number(0))]),
    "root_by_place_in_group": (
        [call("broadcast.0", group=group(0, 1), group_src=number(1))],
        [call("broadcast.0", group=group(0, 1), group_src=number(1))],
    ),
}


@pytest.mark.parametrize("pair", list(PAIRS))
def test_what_was_given_happened_before(pair: str) -> None:
    """Rank 1 goes wrong late in its program, rank 0 right after it took the data."""
    taker, giver = PAIRS[pair]
    programs = {0: [*taker, *compute()], 1: [*compute(5), *giver]}
    assert order(programs, {0: Event(1), 1: Event(4)}) == [(1, True), (0, False)]
    assert order(programs, {0: Event(0, after=True), 1: Event(4)}) == [(1, True), (0, False)]


@pytest.mark.parametrize("pair", ["broadcast_from_1", "reduce_to_0", "recv_from_1"])
def test_data_go_one_way_only(pair: str) -> None:
    """What rank 0, which only takes, did before says nothing about rank 1."""
    taker, giver = PAIRS[pair]
    programs = {0: [*compute(), *taker], 1: [*giver, *compute()]}
    assert [first for _, first in order(programs, {0: Event(0), 1: Event(1)})] == [True, True]


def test_what_differs_before_a_collective_is_not_caused_by_it() -> None:
    programs = {rank: [*compute(), call("all_reduce.0")] for rank in (0, 1)}
    given = {0: Event(1, after=False), 1: Event(1, after=True)}
    assert order(programs, given) == [(0, True), (1, False)]


def test_disjoint_groups_are_ordered_by_their_exchanges() -> None:
    programs = {rank: [call(f"all_reduce.{at}", group=group(0, 1)) for at in range(4)] for rank in (0, 1)}
    programs |= {rank: [call(f"all_reduce.{at}", group=group(2, 3)) for at in range(4)] for rank in (2, 3)}
    assert order(programs, {0: Event(3, after=False), 2: Event(1, after=False)}) == [(2, True), (0, True)]


def test_a_chain_over_a_rank_without_an_event() -> None:
    programs = {
        0: [call("send.0", dst=number(1)), *compute()],
        1: [call("recv.0", src=number(0)), call("send.0", dst=number(2))],
        2: [call("recv.0", src=number(1)), *compute()],
    }
    assert order(programs, {2: Event(1), 0: Event(0, after=False)}) == [(0, True), (2, False)]


def test_a_ring_of_operations_that_do_not_wait() -> None:
    """Both start to receive before they send: no rank waits for ever, and what was sent is still the earlier."""
    programs = {
        0: [call("irecv.0", number(1)), *compute(), call("isend.0", number(1)), *compute()],
        1: [call("irecv.0", number(0)), call("isend.0", number(0)), call("all_reduce.0"), *compute()],
    }
    programs[0].append(call("all_reduce.0"))
    assert order(programs, {0: Event(1), 1: Event(3)}) == [(0, True), (1, False)]


def test_a_batch_gives_before_it_takes() -> None:
    def batch(peer: int) -> tuple[str, Any]:
        operations = [{"op": op, "peer": peer, "class_type": "torch.distributed.P2POp"} for op in ("irecv", "isend")]
        return "Distributed.batch_isend_irecv.0.forward", {"input_args": [operations], "input_kwargs": {}}

    programs = {0: [*compute(3), batch(1)], 1: [batch(0), *compute()]}
    assert order(programs, {0: Event(2), 1: Event(0, after=True)}) == [(0, True), (1, False)]


@pytest.mark.parametrize("missing", ["rank", "call"])
def test_a_recording_that_does_not_fit_together_still_has_an_answer(missing: str) -> None:
    programs = {0: [call("recv.0", src=number(7)), call("all_reduce.0"), *compute()], 1: [call("all_reduce.0")]}
    if missing == "call":
        programs[1] = [call("recv.0", src=number(0)), call("recv.1", src=number(0)), *compute()]
    assert sorted(rank for rank, _ in order(programs, {0: Event(2), 1: Event(0)})) == [0, 1]


def test_named_groups_of_mindspore() -> None:
    def reduced(rank: int) -> list[tuple[str, Any]]:
        text = {"type": "str", "value": "tp_group"}
        body = {"input_args": [{}, {"type": "str", "value": "sum"}, text], "input_kwargs": {}}
        return [*compute(3 * rank), ("communication.comm_func.all_reduce.0.forward", body), *compute()]

    assert order({0: reduced(0), 1: reduced(1)}, {0: Event(1), 1: Event(0)}) == [(1, True), (0, False)]


@pytest.mark.parametrize("batched", [False, True], ids=["alone", "batched"])
def test_a_receive_waits_for_what_was_sent_with_its_tag(batched: bool) -> None:
    """Rank 1 goes wrong between two sends; rank 0 first takes the later one."""

    def take(tag: int) -> tuple[str, Any]:
        if not batched:
            return call("recv.0", number(1), None, number(tag))
        operations = [{"op": "irecv", "peer": 1, "tag": tag}]
        return "Distributed.batch_isend_irecv.0.forward", {"input_args": [operations], "input_kwargs": {}}

    send = [call("send.0", dst=number(0), tag=number(3)), call("send.1", dst=number(0), tag=number(7))]
    programs = {0: [take(7), *compute(), take(3)], 1: [send[0], *compute(), send[1]]}
    assert order(programs, {0: Event(1), 1: Event(1)}) == [(1, True), (0, False)]


def test_a_tag_is_no_peer() -> None:
    """Who receives from anyone waits for nobody that is known."""
    sent = call("send.0", dst=number(0), tag=number(1))
    programs = {0: [call("recv.0", None, None, number(1)), *compute()], 1: [*compute(), sent]}
    assert [first for _, first in order(programs, {0: Event(1), 1: Event(0)})] == [True, True]


def test_what_is_received_comes_after_what_is_made() -> None:
    """Rank 0 received something wrong, rank 1 made it; sends are recorded where the program waits for them, at the end,
    so that no rank seems to go on."""
    findings = [
        RankFinding(0, program(0, [call("recv.0", number(1)), call("isend.0", number(1))]), entry=0),
        RankFinding(1, program(1, [call("recv.0", number(0)), *compute(), call("isend.0", number(0))]), entry=1),
    ]
    assert [standing.rank for standing in earliest(findings)] == [0, 1]
    assert [standing.rank for standing in earliest([replace(findings[0], received=True), findings[1]])] == [1, 0]
