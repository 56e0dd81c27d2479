"""The dumps of all ranks of one step to one dump per model replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msprobe.compare.parallel_layout import Layout
from msprobe.core.errors import MsprobeException
from msprobe.core.store.reader import Dump
from msprobe.visualize.merge.detect import pipelines, reducing
from msprobe.visualize.merge.pipeline import Stage, merge_stages
from msprobe.visualize.merge.tensor_parallel import merge_shards
from msprobe.visualize.merge.tree import Branch, to_dump, to_tree
from msprobe.visualize.names import NameCache


def merge_ranks(dumps: Mapping[int, Dump], layout: Layout, names: NameCache) -> list[Dump]:
    """Merged dumps, one per replica, ordered by their first rank.

    Raises:
        MsprobeException: the number of ranks is not that of the layout.
    """
    if sorted(dumps) != list(range(layout.rank_size)):
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"--rank_size {layout.rank_size} needs the ranks 0 to {layout.rank_size - 1} in each step, "
            f"found {len(dumps)}: {', '.join(map(str, sorted(dumps)[:10]))}",
        )
    trees: dict[int, Branch] = {}
    for group in _groups(pipelines(dumps), layout.pp, layout.groups("pp")):
        stages = [Stage(rank, to_tree(dumps[rank], names)) for rank in group]
        trees[group[0]] = merge_stages(stages, names, layout.vpp) if layout.pp > 1 else stages[0].tree
    merged = []
    for group in _groups(reducing(dumps), layout.tp, layout.groups("tp")):
        ranks = [rank for rank in group if rank in trees]
        if layout.tp > 1 and len(ranks) == len(group):
            merged.append(to_dump(merge_shards(ranks, [trees[rank] for rank in ranks], names), dumps[ranks[0]]))
        else:
            merged += [to_dump(trees[rank], dumps[rank]) for rank in ranks]
    return merged


def _groups(found: Sequence[Sequence[int]], size: int, computed: list[list[int]]) -> list[list[int]]:
    """The groups that were seen, when they are as many and as large as the layout says; else the computed ones."""
    members = sorted(rank for group in found for rank in group)
    fits = len(found) == len(computed) and all(len(group) == size for group in found)
    seen = [list(group) for group in found]
    return sorted(seen) if fits and len(members) == len(set(members)) else computed
