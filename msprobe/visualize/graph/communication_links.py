"""Which communication call of one rank exchanges data with which call of another rank, and in which direction."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from msprobe.analyze.communication import Key, exchanges
from msprobe.visualize.graph.node import Graph, Node

SEND, RECEIVE, BOTH = "send", "receive", "send_receive"
_SourceStep = tuple[str, int]
"""The side ("NPU" or "Bench") and the step of a graph."""


@dataclass(frozen=True, slots=True)
class _Participant:
    """The part of one rank in an exchange."""

    rank: int
    node: str
    gives: bool
    takes: bool
    status: str

    def directions(self, other: _Participant) -> list[str]:
        """Return the directions of data between this and another part, seen from here; none within one rank."""
        if other.rank == self.rank:
            return []
        return [SEND] * (self.gives and other.takes) + [RECEIVE] * (self.takes and other.gives)


@dataclass(slots=True)
class CommunicationLinks:
    """Collects the communication calls of all graphs."""

    _participants: dict[tuple[_SourceStep, Key], list[_Participant]] = field(default_factory=lambda: defaultdict(list))

    def add(self, graph: Graph, source: str) -> None:
        """Add the calls of one graph; ``source`` is its side."""
        source_step, data = (source, graph.step), graph.dump.data
        graph_exchanges = exchanges(
            graph.rank, ((number, name, body) for number, (name, body) in enumerate(data.items()))
        )
        names = list(data) if graph_exchanges else []
        for exchange in graph_exchanges:
            name = names[exchange.entry]
            status = _status(graph.nodes[name])
            for key in dict.fromkeys((*exchange.sends, *exchange.receives)):
                participant = _Participant(graph.rank, name, key in exchange.sends, key in exchange.receives, status)
                self._participants[source_step, key].append(participant)

    def links(self) -> Iterator[tuple[str, str]]:
        """Yield (id of a node, its link as JSON) for every call with a partner."""
        nodes: dict[str, tuple[set[str], dict[str, list[str]]]] = {}
        for ((source, step), _), participants in self._participants.items():
            for own, other in itertools.permutations(participants, 2):
                directions = own.directions(other)
                if directions:
                    node_id = f"{source}_{step}_{own.rank}_{own.node}"
                    all_directions, partners = nodes.setdefault(node_id, (set(), {}))
                    all_directions.update(directions)
                    partners.setdefault(str(other.rank), [other.status, other.node])
        for node_id, (all_directions, partners) in nodes.items():
            kind = BOTH if len(all_directions) > 1 else next(iter(all_directions))
            yield node_id, json.dumps({"communications_type": kind, "nodes_info": partners})


def _status(node: Node) -> str:
    precision = node.verdict.precision if node.verdict is not None else None
    value = node.overflow if node.overflow is not None else precision
    return "Nan" if value is None else str(value)
