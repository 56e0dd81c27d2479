"""What collecting costs: the CPU time of a training step with the tool against the same step without.

Every variant is a live process and the processes take turns (A B C A B C ...), so that a busy machine disturbs all of
them alike. Overhead = (CPU of the step with the tool / CPU of the step without) - 1, per round, then the median.
Process CPU time counts all threads, those of the tool too. A step is start, forward, loss, backward, optimizer, stop.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from costs import Cost, cost, report
from live import Live
from tools import OURS, parser_of, tools_of
from variants import Variant, parse

DEFAULT_VARIANTS = "none+again,created,L1.statistics+filtered,L0.statistics,L1.statistics,mix.statistics"
PLAIN = "none"
STEADY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 26)}
"""glibc keeps all memory it has had: which step faults pages in again is a matter of luck, and worth a tenth of it."""


class Runner:
    """The processes of one tool: the plain step and every variant of it."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.lives: list[Live] = []
        self.turns: dict[str, list[dict[str, float]]] = {}
        self.facts: dict[str, dict[str, float]] = {}

    def add(self, live: Live, warm: int) -> None:
        """Warm a process up and count what it records."""
        self.lives.append(live)
        self.turns[live.variant.text] = []
        live.steps(warm)
        self.facts[live.variant.text] = {**live.entries(), "create_s": live.ready["create_s"]}

    def turn(self, steps: int) -> None:
        for live in self.lives:
            self.turns[live.variant.text].append(live.steps(steps))

    def costs(self) -> list[Cost]:
        plain = self.turns[PLAIN]
        others = [live.variant for live in self.lives if live.variant.text != PLAIN]
        return [cost(self.tool, one, self.turns[one.text], plain, self.facts[one.text]) for one in others]

    def close(self) -> None:
        for live in self.lives:
            live.close()


def measure(
    pythons: dict[str, str], workload: str, variants: Sequence[Variant], options: argparse.Namespace
) -> list[Cost]:
    """Costs of every variant of every tool, all tools in the same rounds."""
    runners = {tool: Runner(tool) for tool in pythons}
    try:
        for variant in [parse(PLAIN), *variants]:
            for tool in [tool for tool in pythons if tool == OURS or not variant.only_ours]:
                runners[tool].add(Live(pythons[tool], workload, variant), options.warm)
        for _ in range(options.rounds):
            for runner in runners.values():
                runner.turn(options.steps)
        return [cost for runner in runners.values() for cost in runner.costs()]
    finally:
        for runner in runners.values():
            runner.close()


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--workload", default="tinylstm", help="as tinylstm, llama:layers=4, conv, ops:calls=400")
    parser.add_argument("--variants", default=DEFAULT_VARIANTS, help="comma-separated; see variants.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1, help="steps in a turn: more for steps of a few milliseconds")
    parser.add_argument("--warm", type=int, default=2, help="steps before the first round")
    parser.add_argument("--steady-memory", action="store_true", help="no process gives memory back between steps")
    parser.add_argument("--json", help="append the costs to this file, one JSON object per line")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    pythons = tools_of(options)
    os.environ.update(STEADY if options.steady_memory else {})
    costs = measure(pythons, options.workload, [parse(text) for text in options.variants.split(",")], options)
    print(f"{options.workload}: {options.rounds} rounds of {options.steps} steps, load {os.getloadavg()[0]:.1f}")
    print(report(costs))
    if options.json:
        with open(options.json, "a", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"workload": options.workload, **asdict(one)}) + "\n" for one in costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
