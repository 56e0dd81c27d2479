"""Which communication call of one rank belongs to which of another: peers, groups and the order of calls say it.

Point to point: the n-th send of a rank to a peer with a tag, batched or not, and that peer's n-th receive of it.
Collectives: the n-th call of an operation in a group, on all its ranks.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msprobe.compare.items import leaves
from msprobe.visualize.node import Graph, Node

SEND, RECEIVE, BOTH = "send", "receive", "send_receive"
_PEERS = {"send": (SEND, "dst"), "isend": (SEND, "dst"), "recv": (RECEIVE, "src"), "irecv": (RECEIVE, "src")}


class _Rooted(NamedTuple):
    """A collective with one rank in the middle: what that and the others do, and where it stands in the arguments."""

    root: str
    others: str
    keyword: str
    place: str
    default: int | None = None


_ROOTED = {
    "broadcast": _Rooted(SEND, RECEIVE, "src", ".input.1"),
    "scatter": _Rooted(SEND, RECEIVE, "src", ".input.2", 0),
    "gather": _Rooted(RECEIVE, SEND, "dst", ".input.2", 0),
    "reduce": _Rooted(RECEIVE, SEND, "dst", ".input.1"),
}
_Place = tuple[str, int]
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _End:
    """One rank's part in a communication; ``direction`` is what this rank does."""

    rank: int
    node: str
    direction: str
    status: str


@dataclass(slots=True)
class Links:
    """Collects the communication calls of all graphs."""

    _ends: dict[tuple[_Place, _Key], list[_End]] = field(default_factory=lambda: defaultdict(list))

    def note(self, graph: Graph, source: str) -> None:
        """Take down the calls of one graph."""
        place = source, graph.step
        counted: Counter[_Key] = Counter()
        for name, body in graph.dump.data.items():
            if not name.startswith("Distributed.") or not isinstance(body, dict):
                continue
            node = graph.nodes[name]
            for key, direction in _communications(name, body, graph.rank):
                own = (*key, direction)
                nth = (place, (*key, counted[own]))
                counted[own] += 1
                self._ends[nth].append(_End(graph.rank, name, direction, _status(node)))

    def found(self) -> Iterator[tuple[str, str]]:
        """(id of a node, its link as JSON) for every call with a partner."""
        nodes: dict[str, tuple[str, dict[str, list[str]]]] = {}
        for ((source, step), _), ends in self._ends.items():
            for end in ends:
                others = [other for other in ends if other.rank != end.rank and _answers(end, other)]
                if not others:
                    continue
                kind, partners = nodes.setdefault(f"{source}_{step}_{end.rank}_{end.node}", (end.direction, {}))
                if kind != end.direction:
                    nodes[f"{source}_{step}_{end.rank}_{end.node}"] = BOTH, partners
                for other in others:
                    partners.setdefault(str(other.rank), [other.status, other.node])
        for key, (kind, partners) in nodes.items():
            yield key, json.dumps({"communications_type": kind, "nodes_info": partners})


def _answers(end: _End, other: _End) -> bool:
    if end.direction == BOTH:
        return other.direction == BOTH
    return {end.direction, other.direction} == {SEND, RECEIVE}


def _status(node: Node) -> str:
    precision = node.finding.precision if node.finding is not None else None
    value = node.overflow if node.overflow is not None else precision
    return "Nan" if value is None else str(value)


def _communications(name: str, body: dict[str, Any], rank: int) -> Iterator[tuple[_Key, str]]:
    """(what identifies the communication on all its ranks, direction) of each communication of a call."""
    api = name.split(".", 2)[1]
    found = {leaf.suffix: leaf.raw for leaf in leaves(name, body) if leaf.slot == "input"}
    if api == "batch_isend_irecv":
        for raw in found.values():
            told = raw.get("p2p") if isinstance(raw, dict) else None
            if told and isinstance(told.get("peer"), int) and told.get("op") in _PEERS:
                direction, _ = _PEERS[told["op"]]
                tag = told.get("tag")
                yield _peer_key(rank, told["peer"], direction, tag if isinstance(tag, int) else 0), direction
        return
    if api in _PEERS:
        direction, keyword = _PEERS[api]
        peer = _rank(found, keyword, ".input.1")
        if peer is not None:
            tag = _number(found.get(".input.tag"), found.get(".input.3")) or 0
            yield _peer_key(rank, peer, direction, tag), direction
        return
    group = _group(found)
    if api in _ROOTED:
        rooted = _ROOTED[api]
        root = _rank(found, rooted.keyword, rooted.place)
        root = rooted.default if root is None else root
        if root is not None:
            yield (api, group, root), rooted.root if rank == root else rooted.others
        return
    yield (api, group), BOTH


def _peer_key(rank: int, peer: int, direction: str, tag: int) -> _Key:
    return ("p2p", rank, peer, tag) if direction == SEND else ("p2p", peer, rank, tag)


def _rank(found: dict[str, Any], keyword: str, place: str) -> int | None:
    """The other rank of a call, by keyword or place; ``group_src`` and ``group_dst`` count inside the group."""
    rank = _number(found.get(f".input.{keyword}"), found.get(place))
    inside = _number(found.get(f".input.group_{keyword}"))
    if rank is not None or inside is None:
        return rank
    members = next((raw.get("group_ranks") for raw in found.values() if _is_group(raw)), None)
    return members[inside] if isinstance(members, list) and 0 <= inside < len(members) else inside


def _number(*raws: Any) -> int | None:
    for raw in raws:
        value = raw.get("value") if isinstance(raw, dict) else raw
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _group(found: dict[str, Any]) -> str:
    for raw in found.values():
        if _is_group(raw):
            return str(raw.get("group_id") or raw.get("group_ranks"))
    return "world"


def _is_group(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "torch.ProcessGroup"
