"""What goes wrong between pipeline stages: the call that sends or receives what a stage is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msprobe.compare.parallel.identity import Call, RankCalls
from msprobe.compare.parallel.merged_dump import Suspect
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, leaves

_SENDS, _RECEIVES = ("send", "isend"), ("recv", "irecv")
_BATCH = "batch_isend_irecv"
_SENT = "this call sends it to the next stage, and is not given what the golden run has there"
_RECEIVED = "this call receives it from the other stage"


def transfer(ranks: Sequence[RankCalls], call: Call) -> Suspect | None:
    """Return the call that sends or receives what a call of a module is given; None where no such call has it."""
    given = (leaf.raw for leaf in leaves(call.name, call.body) if leaf.slot == INPUT)
    wanted = [piece for raw in given if (piece := piece_of(raw)) is not None and piece.numel > 1]
    for functions, slot, reason in ((_SENDS, INPUT, _SENT), (_RECEIVES, OUTPUT, _RECEIVED)):
        calls = ((rank.dump, name) for rank in ranks for name in _calls(rank.dump, functions))
        for dump, name in calls:
            if any(piece.agrees(other) for piece in _moved(dump, name, slot) for other in wanted):
                return Suspect(dump.stacks.get(name, ()), reason)
    return None


def _calls(dump: Dump, functions: Sequence[str]) -> Iterator[str]:
    for name in dump.data:
        parts = name.split(".")
        if len(parts) > 1 and parts[0] == "Distributed" and parts[1] in (*functions, _BATCH):
            yield name


def _moved(dump: Dump, name: str, slot: str) -> Iterator[Piece]:
    raws: Iterator[Any] = (leaf.raw for leaf in leaves(name, dump.data[name]) if leaf.slot == slot)
    yield from (piece for raw in raws if (piece := piece_of(raw)) is not None)
