"""Merges the dumps of all ranks of one step to one dump per model replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msprobe.compare.parallel_layout import Layout
from msprobe.core.errors import MsprobeException
from msprobe.core.store.reader import Dump
from msprobe.visualize.merge.detect import pipeline_groups, reduction_groups
from msprobe.visualize.merge.pipeline import Stage, merge_stages
from msprobe.visualize.merge.tensor_parallel import merge_shards
from msprobe.visualize.merge.tree import Branch, to_dump, to_tree
from msprobe.visualize.names import NameCache


def merge_ranks(dumps: Mapping[int, Dump], layout: Layout, names: NameCache) -> list[Dump]:
    """Return the merged dumps, one per replica, ordered by their first rank.

    Raises:
        MsprobeException: the number of ranks is not that of the layout.
    """
    if sorted(dumps) != list(range(layout.rank_size)):
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"--rank_size {layout.rank_size} needs the ranks 0 to {layout.rank_size - 1} in each step, "
            f"found {len(dumps)}: {', '.join(map(str, sorted(dumps)[:10]))}",
        )
    pipelines = {group[0]: group for group in _groups(pipeline_groups(dumps), layout.pp, layout.groups("pp"))}
    merged = []
    for group in _groups(reduction_groups(dumps), layout.tp, layout.groups("tp")):
        heads = [rank for rank in group if rank in pipelines]
        if layout.tp > 1 and len(heads) == len(group):
            trees = [_pipeline_tree(dumps, pipelines[head], pipelines[heads[0]], layout, names) for head in heads]
            merged.append(to_dump(merge_shards(heads, trees, names), dumps[heads[0]]))
            continue
        for head in heads:
            merged.append(to_dump(_pipeline_tree(dumps, pipelines[head], pipelines[head], layout, names), dumps[head]))
    return merged


def _pipeline_tree(
    dumps: Mapping[int, Dump], ranks: Sequence[int], labels: Sequence[int], layout: Layout, names: NameCache
) -> Branch:
    """Return one tree for the stages of a pipeline.

    ``labels`` are the rank numbers in the names of calls, one per stage: the pipelines of one tensor-parallel group
    have the same, so that their calls are merged.
    """
    stages = [Stage(label, to_tree(dumps[rank], names)) for rank, label in zip(ranks, labels, strict=True)]
    return merge_stages(stages, names, layout.vpp) if layout.pp > 1 else stages[0].tree


def _groups(detected: Sequence[Sequence[int]], size: int, computed: list[list[int]]) -> list[list[int]]:
    """Return the detected groups when they are as many and as large as the layout says; else the computed ones."""
    members = [rank for group in detected for rank in group]
    fits = len(detected) == len(computed) and all(len(group) == size for group in detected)
    return sorted(map(list, detected)) if fits and len(members) == len(set(members)) else computed
