"""What a recorded communication call sends to other ranks and receives from them.

A call is reduced to keys: it *sends* under some and *receives* under others, and calls of two ranks with the same key
belong together. The n-th call of an operation in a group is one exchange of its members. The n-th ``send`` from rank a
to rank b with a tag belongs to the n-th ``recv`` with that tag at b from a, batched or not, wherever they stand in the
program. A sender does not wait. Only the root of a ``reduce`` or ``gather`` receives, and only the root of a
``broadcast`` or ``scatter`` sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.naming.names import is_communication

Key = str
"""A text, so that the exchanges of a rank can be sent to another process as they are."""

_FROM_ROOT = frozenset({"broadcast", "broadcast_object_list", "scatter", "scatter_object_list", "scatter_tensor"})
_TO_ROOT = frozenset({"reduce", "gather", "gather_object", "gather_into_tensor"})
_SENDS = frozenset({"send", "isend", "send_object_list"})
_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})
_BATCH = "batch_isend_irecv"
_UNBLOCKING = frozenset({"isend", "irecv", _BATCH})
_PEERS = ("src", "dst", "src_rank", "dst_rank")
_PEERS_IN_GROUP = ("group_src", "group_dst", "src_group", "dst_group")
_TAG = 3  # its index among the positional arguments
_REDUCTIONS = frozenset({"sum", "max", "min", "prod"})
"""Texts among the arguments that name a reduction, and no group."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One communication call.

    Args:
        entry: its position among the entries of its rank.
        sends: the keys under which it sends data.
        receives: the keys under which it receives data.
        waits: False for a call that may return before its data has arrived.
    """

    entry: int
    sends: tuple[Key, ...]
    receives: tuple[Key, ...]
    waits: bool = True


def function_of(name: str) -> str:
    """Return the name of the function alone: ``all_reduce`` for ``Distributed.all_reduce.0.forward``."""
    return name.rsplit(".", 2)[0].rpartition(".")[2]


def exchanges(rank: int, entries: Iterable[tuple[int, str, Any]]) -> list[Exchange]:
    """Return the communication calls of a rank in the order of execution.

    Args:
        rank: the number of the rank.
        entries: position, name and record of the entries of the rank.
    """
    return list(_ExchangeReader(rank).read(entries))


class _ExchangeReader:
    """Reads the calls of one rank and counts them, because the n-th call of one rank belongs to the n-th of another."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._counts: Counter[Key] = Counter()

    def read(self, entries: Iterable[tuple[int, str, Any]]) -> Iterator[Exchange]:
        """Yield the communication calls among the entries."""
        for position, name, body in entries:
            if is_communication(name) and isinstance(body, dict):
                yield self._exchange(position, function_of(name), body)

    def _exchange(self, position: int, api: str, body: Mapping[str, Any]) -> Exchange:
        positional, keywords = _arguments(body)
        waits = api not in _UNBLOCKING and _value(keywords.get("async_op")) is not True
        if api == _BATCH:
            sends, receives = self._batch(positional[0] if positional else keywords.get("p2p_op_list"))
            return Exchange(position, sends, receives, waits)
        group = _group(positional, keywords)
        peer = _peer(positional, keywords, group)
        if api in _SENDS:
            return Exchange(position, self._numbered("p2p", self._rank, peer, _tag(positional, keywords)), (), waits)
        if api in _RECEIVES:
            return Exchange(position, (), self._numbered("p2p", peer, self._rank, _tag(positional, keywords)), waits)
        key = self._numbered(api, group)
        root = 0 if peer is None else peer
        sends = key if api not in _FROM_ROOT or root == self._rank else ()
        receives = key if api not in _TO_ROOT or root == self._rank else ()
        return Exchange(position, sends, receives, waits)

    def _batch(self, operations: Any) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Return what the operations of ``batch_isend_irecv`` send and receive."""
        sends: list[Key] = []
        receives: list[Key] = []
        for operation in operations if isinstance(operations, list) else []:
            if not isinstance(operation, dict):
                continue
            peer, tag = operation.get("peer"), operation.get("tag") or 0
            if operation.get("op") in _SENDS:
                sends += self._numbered("p2p", self._rank, peer, tag)
            elif operation.get("op") in _RECEIVES:
                receives += self._numbered("p2p", peer, self._rank, tag)
        return tuple(sends), tuple(receives)

    def _numbered(self, *parts: Hashable) -> tuple[Key]:
        """Return the key of these parts with the number of calls that have had it."""
        key = " ".join(map(str, parts))
        self._counts[key] += 1
        return (f"{key} #{self._counts[key]}",)


def _arguments(body: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = body.get("input_args") or body.get("input"), body.get("input_kwargs")
    return positional if isinstance(positional, list) else [], keywords if isinstance(keywords, dict) else {}


def _value(node: Any) -> Any:
    return node.get("value") if isinstance(node, dict) else None


def _group(positional: list[Any], keywords: dict[str, Any]) -> Hashable:
    """Return the ranks of the group, or its name; None for the group of all ranks."""
    for node in (keywords.get("group"), *positional):
        if isinstance(node, dict) and isinstance(node.get("group_ranks"), list):
            return tuple(node["group_ranks"])
        value = _value(node)
        if isinstance(value, str) and value.lower() not in _REDUCTIONS and "world_group" not in value:
            return value
    return None


def _tag(positional: list[Any], keywords: dict[str, Any]) -> int:
    value = _value(keywords.get("tag", positional[_TAG] if len(positional) > _TAG else None))
    return value if isinstance(value, int) else 0


def _peer(positional: list[Any], keywords: dict[str, Any], group: Hashable) -> int | None:
    """Return the rank that a call names as source, destination or root; None where it names none."""
    for name in _PEERS:
        value = _value(keywords.get(name))
        if isinstance(value, int):
            return value
    for name in _PEERS_IN_GROUP:
        value = _value(keywords.get(name))
        if isinstance(value, int):
            inside = isinstance(group, tuple) and 0 <= value < len(group)
            return group[value] if inside and isinstance(group, tuple) else value
    return next(
        (_value(node) for node in positional[:_TAG] if isinstance(node, dict) and node.get("type") == "int"), None
    )
