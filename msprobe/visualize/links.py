"""Which communication call of one rank is met by which of another, and which way the data goes."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from msprobe.analyze.communication import Key, exchanges
from msprobe.visualize.node import Graph, Node

SEND, RECEIVE, BOTH = "send", "receive", "send_receive"
_Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _End:
    """One rank's part in an exchange."""

    rank: int
    node: str
    gives: bool
    takes: bool
    status: str

    def ways(self, other: _End) -> list[str]:
        """Which way data goes between this and another part, seen from here; nothing between parts of one rank."""
        if other.rank == self.rank:
            return []
        return [SEND] * (self.gives and other.takes) + [RECEIVE] * (self.takes and other.gives)


@dataclass(slots=True)
class Links:
    """Collects the communication calls of all graphs."""

    _ends: dict[tuple[_Place, Key], list[_End]] = field(default_factory=lambda: defaultdict(list))

    def note(self, graph: Graph, source: str) -> None:
        """Take down the calls of one graph."""
        place, data = (source, graph.step), graph.dump.data
        found = exchanges(graph.rank, ((at, name, body) for at, (name, body) in enumerate(data.items())))
        names = list(data) if found else []
        for exchange in found:
            name = names[exchange.entry]
            status = _status(graph.nodes[name])
            for key in dict.fromkeys((*exchange.gives, *exchange.takes)):
                end = _End(graph.rank, name, key in exchange.gives, key in exchange.takes, status)
                self._ends[place, key].append(end)

    def found(self) -> Iterator[tuple[str, str]]:
        """(id of a node, its link as JSON) for every call with a partner."""
        nodes: dict[str, tuple[set[str], dict[str, list[str]]]] = {}
        for ((source, step), _), ends in self._ends.items():
            for end, other in itertools.permutations(ends, 2):
                found = end.ways(other)
                if found:
                    ways, partners = nodes.setdefault(f"{source}_{step}_{end.rank}_{end.node}", (set(), {}))
                    ways.update(found)
                    partners.setdefault(str(other.rank), [other.status, other.node])
        for key, (ways, partners) in nodes.items():
            kind = BOTH if len(ways) > 1 else next(iter(ways))
            yield key, json.dumps({"communications_type": kind, "nodes_info": partners})


def _status(node: Node) -> str:
    precision = node.finding.precision if node.finding is not None else None
    value = node.overflow if node.overflow is not None else precision
    return "Nan" if value is None else str(value)
