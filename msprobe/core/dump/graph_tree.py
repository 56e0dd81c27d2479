"""Which call of a compiled graph is inside of which, and which is before which.

A graph says when calls begin and end. Those that do not depend on each other it runs in an order of its own: there the
order in which the source of the cell around them calls its parts decides, where it can be told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msprobe.core.dump.graph_body import Section
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording


@dataclass(slots=True, eq=False)
class GraphCall:
    """One call of a module, with what has come of it.

    ``above`` is the backward entry of the call around it. ``forward`` and ``backward`` say whether it is recorded.
    ``opened`` and ``closed`` are times on the clock of the forward calls, given when their order is known. ``path`` is
    that of the module, ``parts`` are the names of those inside it as its source calls them.
    """

    record: CallRecord
    above: str | None
    forward: bool
    backward: bool
    path: str
    parts: Sequence[str]
    running: bool = True
    opened: int = 0
    closed: int = 0
    sections: dict[str, Section] = field(default_factory=dict)
    gradients: dict[str, Section] = field(default_factory=dict)
    inside: list[GraphCall] = field(default_factory=list)

    def misses(self, path: str) -> bool:
        """Whether its source calls the part ``path`` more often than it was called so far."""
        above, _, part = path.rpartition(".")
        return above == self.path and self.parts.count(part) > sum(call.path == path for call in self.inside)

    def returns(self) -> int:
        """When a dynamic graph has all its gradients, on the clock of the forward calls."""
        return self.opened if "output" in self.gradients else self.closed


class GraphTree:
    """The calls of one step as trees, one run of a graph after the other."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._outermost: list[GraphCall] = []
        self._begun: dict[str, list[GraphCall]] = defaultdict(list)
        self._parts: Sequence[str] = ()
        self._parents: dict[str, tuple[str | None, str | None]] = {}
        self._around: CallRecord | None = None
        self.running = False

    def run(self, around: CallRecord | None, parts: Sequence[str]) -> None:
        """A graph is about to run inside the call ``around``; ``parts`` are called by the model itself."""
        self._around, self._parts, self.running = around, parts, True
        self._begun.clear()

    def ran(self) -> None:
        """The graph has run."""
        self.running = False
        self._begun.clear()

    def take(self) -> list[GraphCall]:
        """The outermost calls since this was last asked, in order."""
        outermost, self._outermost = self._outermost, []
        return in_order(outermost, self._parts)

    def begin(self, site: ModuleSite, parts: Sequence[str]) -> GraphCall:
        """A call begins, inside the one that it must belong to."""
        recording, selection, modes = self._recording, self._recording.selection, self._recording.modes
        turn = next(site.calls)
        record = CallRecord(f"{site.stem}.forward.{turn}", None)
        record.backward = f"{site.stem}.backward.{turn}"
        record.recompute = not self.running  # a gradient that runs a part of the graph once more
        path = site.stem.rpartition(".")[0]
        outer = call_around(path, self._begun)
        around = self._around if outer is None else outer.record
        if record.recompute and outer is None:
            parents = self._parents.get(site.stem, (None, None))
        else:
            parents = (None, None) if around is None else (around.name, around.backward)
            self._parents[site.stem] = parents
        if recording.plan.construct:
            record.parent = parents[0]
        record.brings = keep, keep_backward = True, True
        if selection.listed is not None:
            brought = around.brings if around is not None and selection.inherits else (False, False)
            keep = brought[0] or selection.listed(record.name)
            keep_backward = brought[1] or selection.listed(record.backward)
            record.brings = (keep, keep_backward)
        wanted = keep and modes.forward, keep_backward and modes.backward
        call = GraphCall(record, parents[1], *wanted, path, parts)
        (self._outermost if outer is None else outer.inside).append(call)
        self._begun[path].append(call)
        return call


def call_around(path: str, begun: Mapping[str, Sequence[GraphCall]]) -> GraphCall | None:
    """The call that a new call of the module ``path`` is inside of: of the modules around it, the nearest, and of
    the calls of that which have ``begun``, by path, the latest that still runs, or that misses this part.

    What tells that a call is over may run before what tells that a part of it begins: neither waits for the other.
    """
    above = path.rpartition(".")[0]
    while above:
        calls = begun.get(above, ())
        found = next((call for call in reversed(calls) if call.running), None)
        found = found or next((call for call in reversed(calls) if call.misses(path)), None)
        if found is not None:
            return found
        above = above.rpartition(".")[0]
    return None


def in_order(calls: list[GraphCall], parts: Sequence[str]) -> list[GraphCall]:
    """``calls`` as the source calls ``parts``, when every part was called as often as the source says; else (loops,
    lists of cells, other methods) as they began.
    """
    names = [call.path.rpartition(".")[2] for call in calls]
    if Counter(names) != Counter(part for part in parts if part in names):
        return calls
    turns: dict[str, list[int]] = defaultdict(list)
    for turn, part in enumerate(parts):
        turns[part].append(turn)
    places = [turns[name].pop(0) for name in names]
    return [call for _, call in sorted(zip(places, calls, strict=True), key=lambda one: one[0])]
