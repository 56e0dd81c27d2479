"""What collecting costs: the CPU time of a training step with the tool against the same step without.

Every variant is a live process and the processes take turns (A B C A B C ...), so that a busy machine disturbs all of
them alike. Overhead = (CPU of the step with the tool / CPU of the step without) - 1, per round, then the median.
Process CPU time counts all threads, those of the tool too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import table
from live import Live
from variants import Variant, parse

DEFAULT_VARIANTS = "none+again,created,L1.statistics+filtered,L0.statistics,L1.statistics,mix.statistics"
OURS, REFERENCE = "ours", "reference"


@dataclass(frozen=True, slots=True)
class Cost:
    """One variant of one tool: seconds per step, overhead as a fraction, microseconds per entry, bytes per step.

    ``fastest`` is the overhead of the fastest turn over the fastest turn: less disturbed by other jobs, no median.
    """

    tool: str
    variant: str
    base_cpu: float
    overhead: float
    fastest: float
    wall_overhead: float
    entries: int
    us_per_entry: float | None
    on_disk: float
    written: float
    peak_mb: float
    create_s: float


class Runner:
    """The processes of one tool: the plain step and every variant of it."""

    def __init__(self, tool: str, python: str, workload: str, variants: Sequence[Variant], warm: int) -> None:
        self.tool = tool
        wanted = [variant for variant in variants if tool == OURS or not variant.only_ours]
        self.turns: dict[str, list[dict[str, float]]] = {}
        self.lives: list[Live] = []
        self.entries: dict[str, int] = {}
        for variant in [parse("none"), *wanted]:
            live = Live(python, workload, variant)
            self.lives.append(live)
            self.turns[variant.text] = []
            live.steps(warm)
            self.entries[variant.text] = live.entries()

    def turn(self, steps: int) -> None:
        for live in self.lives:
            self.turns[live.variant.text].append(live.steps(steps))

    def costs(self) -> list[Cost]:
        return [self._cost(live) for live in self.lives if live.variant.text != "none"]

    def close(self) -> None:
        for live in self.lives:
            live.close()

    def _cost(self, live: Live) -> Cost:
        base, own = self.turns["none"], self.turns[live.variant.text]
        entries = self.entries[live.variant.text]
        base_cpu = statistics.median(turn["cpu"] for turn in base)
        added = statistics.median(turn["cpu"] for turn in own) - base_cpu
        return Cost(
            tool=self.tool,
            variant=live.variant.text,
            base_cpu=base_cpu,
            overhead=_overhead(own, base, "cpu"),
            fastest=min(turn["cpu"] for turn in own) / min(turn["cpu"] for turn in base) - 1,
            wall_overhead=_overhead(own, base, "wall"),
            entries=entries,
            us_per_entry=added / entries * 1e6 if entries else None,
            on_disk=own[-1]["on_disk"],
            written=statistics.median(turn["written"] for turn in own),
            peak_mb=own[-1]["peak_mb"],
            create_s=live.ready["create_s"],
        )


def measure(
    pythons: dict[str, str], workload: str, variants: Sequence[Variant], options: argparse.Namespace
) -> list[Cost]:
    """Costs of every variant of every tool, all tools in the same rounds."""
    runners: list[Runner] = []
    try:
        for tool, python in pythons.items():
            runners.append(Runner(tool, python, workload, variants, options.warm))
        for _ in range(options.rounds):
            for runner in runners:
                runner.turn(options.steps)
        return [cost for runner in runners for cost in runner.costs()]
    finally:
        for runner in runners:
            runner.close()


def report(costs: Sequence[Cost]) -> str:
    """A line per variant: ours, the reference, and our overhead as a fraction of the reference's."""
    theirs = {cost.variant: cost for cost in costs if cost.tool == REFERENCE}
    head = [
        "variant",
        "base ms",
        "overhead",
        "fastest",
        "wall",
        "entries",
        "us/entry",
        "MB disk",
        "MB written",
        "peak MB",
        "reference",
        "ref fastest",
        "ref us/entry",
        "ref peak MB",
        "ours/reference",
    ]
    rows = []
    for cost in (cost for cost in costs if cost.tool == OURS):
        peer = theirs.get(cost.variant.replace("+fallback", ""))
        comparable = peer is not None and cost.entries > 0 and peer.overhead > 0
        rows.append([
            cost.variant,
            table.figure(cost.base_cpu * 1e3, 1),
            *map(table.figure, (cost.overhead, cost.fastest, cost.wall_overhead)),
            str(cost.entries),
            table.figure(cost.us_per_entry, 0),
            table.figure(cost.on_disk / 1e6),
            table.figure(cost.written / 1e6),
            table.figure(cost.peak_mb, 0),
            table.figure(peer and peer.overhead),
            table.figure(peer and peer.fastest),
            table.figure(peer and peer.us_per_entry, 0),
            table.figure(peer and peer.peak_mb, 0),
            table.figure(cost.overhead / peer.overhead if peer and comparable else None, 3),
        ])
    return table.markdown(head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="python that has msprobe (default: this one)")
    parser.add_argument("--reference", help="python that has the tool to compare with; left out: only ours")
    parser.add_argument(
        "--workload", default="tinylstm", help="tinylstm, llama:layers=4, conv, ops:calls=400,backward=1"
    )
    parser.add_argument("--variants", default=DEFAULT_VARIANTS, help="comma-separated; see variants.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1, help="steps in a turn: more for steps of a few milliseconds")
    parser.add_argument("--warm", type=int, default=2, help="steps before the first round")
    parser.add_argument("--json", help="append the costs to this file, one JSON object per line")
    options = parser.parse_args(arguments)
    pythons = {OURS: options.python} | ({REFERENCE: options.reference} if options.reference else {})
    variants = [parse(text) for text in options.variants.split(",")]
    costs = measure(pythons, options.workload, variants, options)
    print(f"{options.workload}: {options.rounds} rounds of {options.steps} steps, load {os.getloadavg()[0]:.1f}")
    print(report(costs))
    if options.json:
        with open(options.json, "a", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"workload": options.workload, **asdict(cost)}) + "\n" for cost in costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
