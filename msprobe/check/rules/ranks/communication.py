"""Communication: ranks of one group make the same calls with the same shapes, and what arrives is what was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product, zip_longest

from msprobe.check.facts.roles import POINT_TO_POINT
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import HALF_PRECISION, Collective, StepFacts, Tensor, differ
from msprobe.check.findings import Finding
from msprobe.check.needs import COLLECTIVES, RANKS
from msprobe.check.rule import Rule

_OF_TWO_RANKS = POINT_TO_POINT | {"send_object_list", "recv_object_list"}
_SAME_SHAPE = frozenset({
    *("all_reduce", "broadcast", "reduce", "reduce_scatter_tensor", "all_gather_into_tensor"),
    *("_all_gather_base", "_reduce_scatter_base", "all_reduce_coalesced"),
})
_SAME_PLACES = _SAME_SHAPE | {"all_gather"}
_SAME_DTYPE = _SAME_SHAPE | {"all_gather", "all_to_all", "all_to_all_single", "reduce_scatter", "scatter", "gather"}
_ADDS = frozenset({"", "sum", "RedOpType.SUM", "ReduceOp.SUM", "SUM"})
_OF_SUMS = 1e-4
Ranks = tuple[int, ...]
Calls = Mapping[int, Sequence[Collective]]


def _by_group(steps: Sequence[StepFacts], ranks: Sequence[int]) -> dict[Ranks, dict[int, list[Collective]]]:
    """Return the collectives of one step, by group and by rank, where all ranks of the group are recorded."""
    groups: dict[Ranks, dict[int, list[Collective]]] = defaultdict(lambda: defaultdict(list))
    recorded = {facts.rank for facts in steps}
    for facts in steps:
        for one in facts.collectives:
            if one.function in _OF_TWO_RANKS:
                continue
            group = one.group or tuple(ranks)
            if facts.rank in group and set(group) <= recorded:
                groups[group][facts.rank].append(one)
    return groups


def _together(run: RunFacts) -> Iterator[tuple[int, Ranks, Calls]]:
    """Yield the collectives of each step and group, by rank."""
    for step in run.steps:
        for group, calls in _by_group(run.step(step), run.ranks).items():
            yield step, group, calls


def different_calls(run: RunFacts) -> Iterator[Finding]:
    """Yield the first collective of each group that ranks make differently."""
    for step, group, calls in _together(run):
        finding = _first_difference(step, group, calls)
        if finding is not None:
            yield finding
    yield from other_gradients(run)


def _first_difference(step: int, group: Ranks, calls: Calls) -> Finding | None:
    first = group[0]
    pairs = (
        (rank, own, other)
        for rank in group[1:]
        for own, other in zip_longest(calls.get(first, ()), calls.get(rank, ()))
    )
    for rank, own, other in pairs:
        words = _different(own, other, first, rank)
        one, at = (other, rank) if other is not None else (own, first)
        if words is not None and one is not None:
            reason = f"ranks {', '.join(map(str, group))} make one collective differently: {words}"
            return _about("collectives_differ", reason, step, at, one, (first, rank))
    return None


def _about(rule: str, reason: str, step: int, rank: int, one: Collective, ranks: Ranks) -> Finding:
    return Finding(
        rule, reason, "certain", step, rank, one.module or None, call=one.name, ranks=ranks, place=one.place
    )  # fmt: skip


def _different(own: Collective | None, other: Collective | None, rank: int, other_rank: int) -> str | None:
    if own is None or other is None:
        made, here, there = (own, rank, other_rank) if other is None else (other, other_rank, rank)
        return (
            None
            if made is None
            else f"rank {here} calls {made.function} ({made.name}) and rank {there} makes no such call"
        )
    if own.function != other.function:
        names = f"{own.name}, {other.name}"
        return f"rank {rank} calls {own.function} where rank {other_rank} calls {other.function} ({names})"
    if own.operation != other.operation:
        operations = own.operation or "sum", other.operation or "sum"
        return f"{own.function} of rank {rank} is {operations[0]}, of rank {other_rank} {operations[1]}"
    left, right = next(iter(own.given), None), next(iter(other.given), None)
    if left is None or right is None:
        return None
    if own.function in _SAME_DTYPE and left.dtype != right.dtype:
        return f"{own.function} gets {left.dtype} on rank {rank} and {right.dtype} on rank {other_rank}"
    if own.function in _SAME_SHAPE and left.size != right.size:
        return (
            f"{own.function} gets shape {list(left.shape)} on rank {rank} and {list(right.shape)} on rank {other_rank}"
        )
    if own.function in _SAME_PLACES and left.shape != right.shape and sorted(left.shape) == sorted(right.shape):
        return (
            f"{own.function} gets shape {list(left.shape)} on rank {rank} and {list(right.shape)} on rank "
            f"{other_rank}: as many numbers, in other places"
        )
    return None


def other_gradients(run: RunFacts) -> Iterator[Finding]:
    """Yield reductions in which one rank gives the gradient of one parameter and another rank that of another."""
    names = {key: _names_of_gradients(facts) for key, facts in run.of.items()}
    for step, group, calls in _together(run):
        for each in zip(*(calls.get(rank, ()) for rank in group), strict=False):
            given = [names[step, rank].get(one.given[0].key) if one.given and one.function == "all_reduce" else None
                     for rank, one in zip(group, each, strict=True)]  # fmt: skip
            at = next((at for at, name in enumerate(given) if name is not None and given[0] not in (None, name)), None)
            if at is not None:
                reason = (
                    f"rank {group[0]} reduces the gradient of {given[0]} where rank {group[at]} reduces that of "
                    f"{given[at]}: the ranks make equal calls in another order, and add what does not belong together"
                )
                yield _about("collectives_differ", reason, step, group[at], each[at], (group[0], group[at]))
                return


def _names_of_gradients(facts: StepFacts) -> dict[Hashable, str]:
    """Return the parameter whose gradient a value is, where only one has it."""
    found: dict[Hashable, str] = {}
    twice: set[Hashable] = set()
    for name, gradients in facts.gradients.items():
        if not gradients or gradients[0].is_constant:
            continue
        key = gradients[0].key
        if key in found:
            twice.add(key)
        found[key] = name
    return {key: name for key, name in found.items() if key not in twice}


def exchanged_sizes(run: RunFacts) -> Iterator[Finding]:
    """Yield the first exchange in which a rank sends another number of rows than the other one expects."""
    for step, group, calls in _together(run):
        rows = [[one for one in calls.get(rank, ()) if one.function.startswith("all_to_all")] for rank in group]
        for together in zip(*rows, strict=False):
            found = next(_mismatches(together), None)
            if found is not None:
                sender, receiver, sent, expected = found
                one, ranks = together[sender], (group[sender], group[receiver])
                reason = f"{one.function}: rank {ranks[0]} sends {sent} to rank {ranks[1]}, which expects {expected}"
                yield _about("exchange_sizes_differ", reason, step, ranks[0], one, ranks)
                return


def _mismatches(calls: Sequence[Collective]) -> Iterator[tuple[int, int, str, str]]:
    """Yield sender, receiver, and what each of them says, of pairs that disagree."""
    count = len(calls)
    for sender, receiver in product(range(count), repeat=2):
        one, other = calls[sender], calls[receiver]
        if one.sizes_in is not None and other.sizes_out is not None:
            sizes = one.sizes_in[receiver : receiver + 1] + other.sizes_out[sender : sender + 1]
            if len(one.sizes_in) == count == len(other.sizes_out) and sizes[0] != sizes[1]:
                yield sender, receiver, f"{sizes[0]} rows", f"{sizes[1]} rows"
        elif one.function == "all_to_all_single" and one.sizes_in is None is other.sizes_out:
            rows = [_rows(values, count) for values in (one.given, other.returned)]
            if None not in rows and rows[0] != rows[1]:
                yield sender, receiver, f"{rows[0]} rows", f"{rows[1]} rows"
        elif one.function == "all_to_all" and len(one.given) == count and len(other.returned) >= count:
            sent, expected = one.given[receiver], other.returned[sender]
            if sent.shape != expected.shape:
                yield sender, receiver, f"shape {list(sent.shape)}", f"shape {list(expected.shape)}"


def _rows(values: Sequence[Tensor], count: int) -> int | None:
    """Return how many rows of the first tensor go to each rank, where they are shared evenly."""
    return values[0].shape[0] // count if values and values[0].shape else None


def wrong_results(run: RunFacts) -> Iterator[Finding]:
    """Yield collectives whose results are not what the ranks have given."""
    for step, group, calls in _together(run):
        together = zip(*(calls.get(rank, ()) for rank in group), strict=False) if len(group) > 1 else ()
        for each in together:
            words = _wrong(group, each)
            if words is not None:
                at, reason = words
                yield _about("collective_result_wrong", reason, step, group[at], each[at], group)
                break
    for step in run.steps:
        yield from _wrong_transfers(step, run.step(step))


def _wrong(group: Ranks, calls: Sequence[Collective]) -> tuple[int, str] | None:
    """Return which rank has a wrong result, and what is wrong; None where all is right or nothing can be told."""
    function = calls[0].function
    if any(one.function != function or not one.returned or not one.given for one in calls):
        return None
    results = [one.returned[0] for one in calls]
    if not all(tensor.is_measured and tensor.is_finite for tensor in results):
        return None
    if function == "all_reduce":
        return _wrong_reduction(group, calls, results)
    if function == "broadcast":
        return _unlike(group, results, function)
    if function == "all_gather" and all(len(one.returned) >= len(group) for one in calls):
        for part, at in product(range(len(group)), repeat=2):
            tensor, given = calls[at].returned[part], calls[part].given[0]
            if tensor.shape == given.shape and differ(tensor, given):
                rank = group[part]
                return at, f"all_gather: what rank {group[at]} gets from rank {rank} is not what rank {rank} gives"
    if function in {"all_gather_into_tensor", "_all_gather_base"}:
        return _unlike(group, results, function)
    return None


def _wrong_reduction(group: Ranks, calls: Sequence[Collective], results: Sequence[Tensor]) -> tuple[int, str] | None:
    unlike = _unlike(group, results, "all_reduce")
    if unlike is not None or calls[0].operation not in _ADDS:
        return unlike
    given = [one.given[0] for one in calls]
    if not all(tensor.is_finite and tensor.is_float and tensor.shape == results[0].shape for tensor in given):
        return None
    if results[0].dtype in HALF_PRECISION:
        return None
    scale, added = sum(tensor.norm for tensor in given), sum(tensor.order for tensor in given)
    result = results[0].order
    if abs(result - added) > _OF_SUMS * scale and abs(result - added / len(group)) > _OF_SUMS * scale:
        return 0, (
            f"all_reduce: the result is not the sum of what the {len(group)} ranks give: its projection is "
            f"{result:.6g}, and theirs add up to {added:.6g}"
        )
    return None


def _unlike(group: Ranks, results: Sequence[Tensor], function: str) -> tuple[int, str] | None:
    for at, tensor in enumerate(results[1:], 1):
        if tensor.shape == results[0].shape and tensor.dtype == results[0].dtype and differ(tensor, results[0]):
            return at, (
                f"{function}: ranks {group[0]} and {group[at]} get different results (norm {results[0].norm:.6g} and "
                f"{tensor.norm:.6g}), which must be equal on all ranks: data are lost or overwritten on the way"
            )
    return None


def _wrong_transfers(step: int, steps: Sequence[StepFacts]) -> Iterator[Finding]:
    """Yield the first tensor that arrives from another rank and is not what that rank has sent."""
    moved = [(facts.rank, one) for facts in steps for one in facts.collectives if one.peer is not None]
    sent: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    taken: dict[tuple[int, int], int] = defaultdict(int)
    for rank, one in moved:
        if one.function in {"send", "isend"} and one.given and one.peer is not None:
            sent[rank, one.peer].append(one.given[0])
    for rank, one in moved:
        if one.function not in {"recv", "irecv"} or not one.returned or one.peer is None:
            continue
        way = one.peer, rank
        number, taken[way] = taken[way], taken[way] + 1
        if number >= len(sent[way]):
            continue
        tensor, given = one.returned[0], sent[way][number]
        if (tensor.shape, tensor.dtype) == (given.shape, given.dtype) and tensor.is_measured and differ(tensor, given):
            reason = (
                f"what rank {rank} receives is not what rank {one.peer} sends (norm {tensor.norm:.6g} and "
                f"{given.norm:.6g})"
            )
            yield _about("collective_result_wrong", reason, step, rank, one, way)
            return


RULES = (
    Rule(
        "collectives_differ",
        "communication",
        "The ranks of a group make the same collectives in the same order, with the same dtype and shape.",
        (COLLECTIVES, RANKS),
        "certain",
        "Look for a branch that depends on the rank or on its data.",
        of_run=different_calls,
    ),
    Rule(
        "exchange_sizes_differ",
        "communication",
        "In all_to_all each rank expects as many rows as the other one sends.",
        (COLLECTIVES, RANKS),
        "certain",
        "Exchange the sizes first, and use the same arguments on all ranks.",
        of_run=exchanged_sizes,
    ),
    Rule(
        "collective_result_wrong",
        "communication",
        "The result of a collective is what the ranks have given: equal where it must be, sums of what was summed.",
        (COLLECTIVES, RANKS),
        "certain",
        "Wait for asynchronous work before the buffer is read or reused; test the links between the devices.",
        of_run=wrong_results,
    ),
)
