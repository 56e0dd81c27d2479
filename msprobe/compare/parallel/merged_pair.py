"""A pair of dumps, each of one process or of the ranks that hold one model together."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from msprobe.compare.inputs.construct_cycles import without_cycles
from msprobe.compare.parallel.layout import Replica
from msprobe.core.errors import NotComparableError
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump, Place, load_dump
from msprobe.core.store.record_walk import NOT_MEASURED, SAMPLED, is_tensor
from msprobe.trace.leaves import is_shape

LoadDump = Callable[[Place], Dump]


def load_pair(left: Place, right: Place) -> tuple[Dump, Dump, list[str]]:
    """Load the dumps of both places, with the ranks of a replica merged to one model.

    Where both sides record modules, the values of modules have identities (``logical_dumps``). Dumps of functions alone
    are merged by the names of the calls, for which there are tensor-parallel ranks and pipeline stages only. A process
    that computes a batch in several micro batches is merged where the other one computes it at once.

    Returns:
        The target's dump, the golden run's, and a line for each kind of value that the merge could not decide.

    Raises:
        ReadError: a document is damaged.
        NotComparableError: a pipeline ran several micro batches, and the other side is no such pipeline.
    """
    load = cache(load_dump)  # a dump without modules is asked for by the merge of values, and by that of names
    if not isinstance(left, Replica) and not isinstance(right, Replica):
        target_dump, golden_dump, left_out = _recorded_by_both(load(left), load(right))
        if not _have_other_micro_batches(target_dump, golden_dump):
            target_dump, golden_dump, cycles = without_cycles(target_dump, golden_dump)
            return target_dump, golden_dump, left_out + cycles
    from msprobe.compare.parallel.logical_dumps import logical_pair  # loaded where ranks are merged

    pair = logical_pair(left, right, load)
    if pair is not None:
        target_dump, golden_dump, cycles = without_cycles(pair[0], pair[1])
        return target_dump, golden_dump, pair[2] + cycles
    from msprobe.compare.parallel.by_name.tensor_parallel import merge_shards

    _refuse_other_dimensions(left, right)
    _refuse_micro_batches(left, right, load)
    targets, goldens = _load_stages(left, load), _load_stages(right, load)
    target, golden = merge_shards(targets, goldens), merge_shards(goldens, targets)
    notes = [f"target: {note}" for note in target.notes] + [f"golden run: {note}" for note in golden.notes]
    target_dump, golden_dump, cycles = without_cycles(target.dump, golden.dump)
    return target_dump, golden_dump, notes + cycles


def _recorded_by_both(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps with the calls that both were asked to record and could, and notes."""
    if not {SAMPLED, NOT_MEASURED} & (target.header.keys() | golden.header.keys()):
        return target, golden, []
    from msprobe.compare.inputs.recorded_by_both import recorded_by_both  # brings the models of configurations

    return recorded_by_both(target, golden)


def _have_other_micro_batches(target: Dump, golden: Dump) -> bool:
    """Return whether one process computes the batch of the other one in another number of micro batches: it calls every
    module as many times more often, and each call gets as many times less."""
    if len(target.data) == len(golden.data):
        return False
    sizes = [_sizes_of_calls(dump) for dump in (target, golden)]
    if not sizes[0] or sizes[0].keys() != sizes[1].keys():
        return False
    ratios = {len(sizes[0][stem]) / len(sizes[1][stem]) for stem in sizes[0]}
    if len(ratios) != 1 or ratios == {1.0}:
        return False
    whole = all(sum(sizes[0][stem]) == sum(sizes[1][stem]) for stem in sizes[0])
    return whole and all(1 in (len(sizes[0][stem]), len(sizes[1][stem])) for stem in sizes[0])


def _sizes_of_calls(dump: Dump) -> dict[str, list[int]]:
    """Return by module how many elements the results of its calls have."""
    sizes: dict[str, list[int]] = {}
    for name, body in dump.data.items():
        if is_module_name(name) and ".forward" in name and body.get("is_recompute") is not True:
            results = [raw for raw in body.get("output") or () if is_tensor(raw) and is_shape(raw["shape"])]
            sizes.setdefault(name.rpartition(".")[0], []).append(sum(math.prod(raw["shape"]) for raw in results))
    return sizes


def _refuse_other_dimensions(*sides: Place) -> None:
    """Raise NotComparableError for ranks that only values of modules can be merged over."""
    for side, place in zip(("target", "golden run"), sides, strict=True):
        if not isinstance(place, Replica):
            continue
        if place.chunks > 1 or any(at.cp or at.dp for row in place.coordinates for at in row):
            raise NotComparableError(
                f"the {side} or the other side has no calls of modules; ranks of context, expert and data parallelism, "
                "and chunks of stages, are merged by modules: record at level L0 or mix"
            )


def _refuse_micro_batches(left: Place, right: Place, load: LoadDump) -> None:
    """Raise NotComparableError where the stages of one side ran several micro batches by turns and the other side has
    another number of stages: which calls belong together is not known yet."""
    stages = [len(place.members) if isinstance(place, Replica) else 1 for place in (left, right)]
    if stages[0] == stages[1]:
        return
    from msprobe.compare.parallel.by_name.pipeline import micro_batches

    for side, place, count in zip(("target", "golden run"), (left, right), stages, strict=True):
        if not isinstance(place, Replica) or count == 1:
            continue
        batches = micro_batches(load(place.members[0][0]))
        if batches > 1:
            raise NotComparableError(
                f"the {side} ran {batches} micro batches through {count} pipeline stages, and the other side has "
                f"{min(stages)}; such layouts cannot be compared yet: record a step with one micro batch"
            )


def _load_stages(place: Place, load: LoadDump) -> list[Dump]:
    """Load one dump per tensor-parallel rank, each with the stages of its pipeline merged."""
    if not isinstance(place, Replica):
        return [load(place)]
    from msprobe.compare.parallel.by_name.pipeline import merge_stages

    return [merge_stages([load(member) for member in stages]) for stages in zip(*place.members, strict=True)]
