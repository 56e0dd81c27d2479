"""What a recorded communication call gives to other ranks and takes from them.

A call is reduced to keys: it *gives* under some and *takes* under others, and calls of two ranks with the same key
belong together. The n-th call of an operation in a group is one exchange of its members, the n-th ``send`` from a to
b with a tag meets the n-th ``recv`` of it at b from a, batched or not, wherever in the program they stand. A sender
gives and does not wait; only the root of a ``reduce`` or ``gather`` takes, only the root of a ``broadcast`` or
``scatter`` gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Key = str
"""Text, so that programs of ranks can travel between processes as they are."""

COMMUNICATION = ("Distributed.", "MintDistributed.", "communication.comm_func.")
"""How names of communication calls begin: PyTorch and ``comm_func``, ``mint.distributed``, and older dumps."""
_FROM_ROOT = frozenset({"broadcast", "broadcast_object_list", "scatter", "scatter_object_list", "scatter_tensor"})
_TO_ROOT = frozenset({"reduce", "gather", "gather_object", "gather_into_tensor"})
_SENDS = frozenset({"send", "isend", "send_object_list"})
_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})
_BATCH = "batch_isend_irecv"
_UNBLOCKING = frozenset({"isend", "irecv", _BATCH})
_PEERS = ("src", "dst", "src_rank", "dst_rank")
_PEERS_IN_GROUP = ("group_src", "group_dst", "src_group", "dst_group")
_TAG = 3  # its place among the positional arguments
_REDUCTIONS = frozenset({"sum", "max", "min", "prod"})  # texts that name an operation, not a group


@dataclass(frozen=True, slots=True)
class Exchange:
    """One communication call: its position among the entries of its rank, what it gives and takes.

    ``waits`` is False for calls that may go on before their data is there.
    """

    entry: int
    gives: tuple[Key, ...]
    takes: tuple[Key, ...]
    waits: bool = True


def is_communication(name: str) -> bool:
    """Whether an entry name is that of a communication call."""
    return name.startswith(COMMUNICATION) and name.endswith(".forward")


def function_of(name: str) -> str:
    """``all_reduce`` of ``Distributed.all_reduce.0.forward``."""
    return name.rsplit(".", 2)[0].rpartition(".")[2]


def exchanges(rank: int, entries: Iterable[tuple[int, str, Any]]) -> list[Exchange]:
    """The communication calls among ``entries``: position, name and record, in the order of execution."""
    return list(_Reader(rank).read(entries))


class _Reader:
    """Counts the calls of one rank, so that the n-th of one rank can meet the n-th of another."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._seen: Counter[Key] = Counter()

    def read(self, entries: Iterable[tuple[int, str, Any]]) -> Iterator[Exchange]:
        for position, name, body in entries:
            if is_communication(name) and isinstance(body, dict):
                yield self._exchange(position, function_of(name), body)

    def _exchange(self, position: int, api: str, body: Mapping[str, Any]) -> Exchange:
        positional, keywords = _arguments(body)
        waits = api not in _UNBLOCKING and _value(keywords.get("async_op")) is not True
        if api == _BATCH:
            gives, takes = self._batch(positional[0] if positional else keywords.get("p2p_op_list"))
            return Exchange(position, gives, takes, waits)
        group = _group(positional, keywords)
        peer = _peer(positional, keywords, group)
        if api in _SENDS:
            return Exchange(position, self._numbered("p2p", self._rank, peer, _tag(positional, keywords)), (), waits)
        if api in _RECEIVES:
            return Exchange(position, (), self._numbered("p2p", peer, self._rank, _tag(positional, keywords)), waits)
        key = self._numbered(api, group)
        root = 0 if peer is None else peer
        gives = key if api not in _FROM_ROOT or root == self._rank else ()
        takes = key if api not in _TO_ROOT or root == self._rank else ()
        return Exchange(position, gives, takes, waits)

    def _batch(self, operations: Any) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        gives: list[Key] = []
        takes: list[Key] = []
        for operation in operations if isinstance(operations, list) else []:
            if not isinstance(operation, dict):
                continue
            peer, tag = operation.get("peer"), operation.get("tag") or 0
            if operation.get("op") in _SENDS:
                gives += self._numbered("p2p", self._rank, peer, tag)
            elif operation.get("op") in _RECEIVES:
                takes += self._numbered("p2p", peer, self._rank, tag)
        return tuple(gives), tuple(takes)

    def _numbered(self, *parts: Hashable) -> tuple[Key]:
        key = " ".join(map(str, parts))
        self._seen[key] += 1
        return (f"{key} #{self._seen[key]}",)


def _arguments(body: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = body.get("input_args") or body.get("input"), body.get("input_kwargs")
    return positional if isinstance(positional, list) else [], keywords if isinstance(keywords, dict) else {}


def _value(node: Any) -> Any:
    return node.get("value") if isinstance(node, dict) else None


def _group(positional: list[Any], keywords: dict[str, Any]) -> Hashable:
    """The ranks of the group, or its name; None for the whole world."""
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
