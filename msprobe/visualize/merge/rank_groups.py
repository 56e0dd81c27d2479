"""Merges the dumps of all ranks of one step to one dump per model replica.

``merge_ranks`` takes the groups of ranks from the communication in the dumps: which rank sends to which
(``pipeline_groups``), and which ranks reduce together (``reduction_groups``). Where these do not fit the layout that
the user gives, the groups of the layout are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msprobe.analyze.communication import function_of
from msprobe.compare.parallel.layout import Layout
from msprobe.compare.records.entries import parent_of
from msprobe.core.errors import MsprobeException
from msprobe.core.naming.names import COMMUNICATION
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import leaves
from msprobe.visualize.graph.node import NameCache
from msprobe.visualize.merge.pipeline import Stage, merge_stages
from msprobe.visualize.merge.record_tree import Branch, to_dump, to_tree
from msprobe.visualize.merge.tensor_parallel import merge_shards

_SENDS = {"send": "dst", "isend": "dst"}
_REDUCES = ("all_reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "all_gather_into_tensor")


def merge_ranks(dumps: Mapping[int, Dump], layout: Layout, names: NameCache, *, published: bool = False) -> list[Dump]:
    """Return the merged dumps, one per replica, ordered by their first rank; ``published`` as in ``merge_shards``.

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
            merged.append(to_dump(merge_shards(heads, trees, names, published=published), dumps[heads[0]]))
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


def pipeline_groups(dumps: Mapping[int, Dump]) -> list[list[int]]:
    """Return the chains of ranks along forward sends, each in the order of its stages.

    Ranks that neither send nor receive are in no chain.
    """
    following: dict[int, int] = {}
    for rank, dump in dumps.items():
        for name, body in dump.data.items():
            peer = _sent_to(name, body) if name.endswith(".forward") else None
            if peer is not None:
                following.setdefault(rank, peer)
                break
    starts = [rank for rank in following if rank not in following.values()]
    chains = []
    for start in starts:
        chain = [start]
        while chain[-1] in following and following[chain[-1]] not in chain:
            chain.append(following[chain[-1]])
        chains.append(chain)
    return chains


def _sent_to(name: str, body: Any) -> int | None:
    api = _api(name)
    if api is None:
        return None
    values = {leaf.suffix: leaf.raw for leaf in leaves(name, body)}
    if api == "batch_isend_irecv":
        for raw in values.values():
            operation = raw.get("p2p") if isinstance(raw, dict) else None
            if operation and operation.get("op") in _SENDS and isinstance(operation.get("peer"), int):
                return int(operation["peer"])
        return None
    raw = values.get(f".input.{_SENDS.get(api, '')}") or (values.get(".input.1") if api in _SENDS else None)
    value = raw.get("value") if isinstance(raw, dict) else None
    return value if isinstance(value, int) else None


def reduction_groups(dumps: Mapping[int, Dump]) -> list[list[int]]:
    """Return the group of the first reduction inside a module of each rank, each group once.

    Reductions outside of modules are those of gradients between replicas.
    """
    groups: list[list[int]] = []
    for dump in dumps.values():
        inside = ((name, body) for name, body in dump.data.items() if parent_of(dump.construct, name) is not None)
        group = next(filter(None, (_group(name, body) for name, body in inside)), None)
        if group and group not in groups:
            groups.append(group)
    return groups


def _api(name: str) -> str | None:
    """Return the function of a communication call; None for another call."""
    return function_of(name) if name.startswith(COMMUNICATION) else None


def _group(name: str, body: Any) -> list[int] | None:
    if _api(name) not in _REDUCES:
        return None
    for leaf in leaves(name, body):
        if isinstance(leaf.raw, dict) and leaf.raw.get("type") == "torch.ProcessGroup":
            ranks = leaf.raw.get("group_ranks")
            return sorted(ranks) if isinstance(ranks, list) else None
    return None
