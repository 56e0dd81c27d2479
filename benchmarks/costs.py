"""What a variant costs, computed from the turns of its process and those of the plain step, and the table of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import table
from tools import OURS, REFERENCE
from variants import Variant

Turns = Sequence[dict[str, float]]

HEAD = (
    "variant",
    "plain ms",
    "overhead",
    "fastest",
    "entries",
    "us/entry",
    "us/call",
    "caller's",
    "MB disk",
    "MB written",
    "peak MB",
    "reference",
    "ref fastest",
    "ref us/entry",
    "ref peak MB",
    "ours/reference",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One variant of one tool.

    ``plain_cpu`` is seconds of a step without the tool; ``overhead`` is the median over the rounds of (step with /
    step without) - 1 in CPU time, ``fastest`` the same of the fastest turns (less disturbed by other jobs), and
    ``wall_overhead`` in wall time; ``us_per_entry`` is added CPU microseconds per entry of dump.json, ``us_per_call``
    per forward call (what it adds to backward is in it), ``caller_us_per_call`` without other threads; ``on_disk`` and
    ``written`` are bytes per step; ``create_s`` is CPU seconds of import and construction.
    """

    tool: str
    variant: str
    plain_cpu: float
    overhead: float
    fastest: float
    wall_overhead: float
    entries: int
    us_per_entry: float | None
    us_per_call: float | None
    caller_us_per_call: float | None
    on_disk: float
    written: float
    peak_mb: float
    create_s: float


def cost(tool: str, variant: Variant, turns: Turns, plain: Turns, facts: dict[str, float]) -> Cost:
    """The cost of ``variant``; ``facts`` holds ``entries``, ``calls`` and ``create_s``."""
    plain_cpu = statistics.median(turn["cpu"] for turn in plain)
    added = _added(turns, plain, "cpu")
    entries = int(facts["entries"])
    return Cost(
        tool=tool,
        variant=variant.text,
        plain_cpu=plain_cpu,
        overhead=_overhead(turns, plain, "cpu"),
        fastest=min(turn["cpu"] for turn in turns) / min(turn["cpu"] for turn in plain) - 1,
        wall_overhead=_overhead(turns, plain, "wall"),
        entries=entries,
        us_per_entry=_micro(added, entries),
        us_per_call=_micro(added, facts["calls"]),
        caller_us_per_call=_micro(_added(turns, plain, "caller"), facts["calls"]),
        on_disk=turns[-1]["on_disk"],
        written=statistics.median(turn["written"] for turn in turns),
        peak_mb=turns[-1]["peak_mb"],
        create_s=facts["create_s"],
    )


def report(costs: Sequence[Cost]) -> str:
    """A line per variant: ours, the reference, and our overhead as a fraction of the reference's."""
    theirs = {cost.variant: cost for cost in costs if cost.tool == REFERENCE}
    ours = [cost for cost in costs if cost.tool == OURS]
    return table.markdown(HEAD, [_row(cost, theirs.get(cost.variant.replace("+fallback", ""))) for cost in ours])


def _row(own: Cost, peer: Cost | None) -> list[str]:
    return [
        own.variant,
        table.figure(own.plain_cpu * 1e3, 1),
        table.figure(own.overhead, 3),
        table.figure(own.fastest, 3),
        str(own.entries),
        table.figure(own.us_per_entry, 0),
        table.figure(own.us_per_call, 0),
        table.figure(own.caller_us_per_call, 0),
        table.figure(own.on_disk / 1e6),
        table.figure(own.written / 1e6),
        table.figure(own.peak_mb, 0),
        table.figure(peer.overhead if peer else None, 3),
        table.figure(peer.fastest if peer else None, 3),
        table.figure(peer.us_per_entry if peer else None, 0),
        table.figure(peer.peak_mb if peer else None, 0),
        table.figure(_share(own, peer), 3),
    ]


def _share(own: Cost, peer: Cost | None) -> float | None:
    """Only where something was recorded: a quotient of two noises says nothing."""
    recorded = own.on_disk > 0 and peer is not None and peer.overhead > 0
    return own.overhead / peer.overhead if peer is not None and recorded else None


def _added(turns: Turns, plain: Turns, meter: str) -> float:
    return statistics.median(turn[meter] for turn in turns) - statistics.median(turn[meter] for turn in plain)


def _micro(seconds: float, count: float) -> float | None:
    return seconds / count * 1e6 if count else None


def _overhead(turns: Turns, plain: Turns, meter: str) -> float:
    return statistics.median(own[meter] / base[meter] for own, base in zip(turns, plain, strict=True)) - 1
