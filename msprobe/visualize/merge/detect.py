"""Groups of ranks that the communication in the dumps shows: which rank sends to which, which reduce together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msprobe.analyze.communication import COMMUNICATION, function_of
from msprobe.compare.items import leaves
from msprobe.compare.pairs import parent_of
from msprobe.core.store.reader import Dump

_SENDS = {"send": "dst", "isend": "dst"}
_REDUCES = ("all_reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "all_gather_into_tensor")


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
