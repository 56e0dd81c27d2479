"""What recording a compiled model costs against recording the eager one: the same entries, by turns.

python benchmarks/compiled.py [--workload llama:layers=2,hidden=256] [--rounds N] [--steps N]

Two pairs: functions and modules, recorded eagerly and with ``torch.compile(backend="msprobe")``; operators of ATen and
modules, eagerly and with ``msprobe_aten``. All processes take turns. Of each turn the CPU seconds beyond those of the
plain eager step count, and the quotient is made within a round; the median and the range of the rounds are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence

import table
from live import Live
from variants import parse

PAIRS = {
    "functions and modules, msprobe": ("mix.statistics", "mix.statistics+graph"),
    "operators and modules, msprobe_aten": ("mix.statistics+operators", "mix.statistics+operators+aten"),
}
PLAIN = "none"
HEAD = ("what", "entries eager", "entries compiled", "plain ms", "eager adds ms", "compiled adds ms", "ratio", "rounds")


def measure(workload: str, options: argparse.Namespace) -> list[list[str]]:
    """Return a row of the table for each pair."""
    names = (PLAIN, *(name for pair in PAIRS.values() for name in pair))
    lives: dict[str, Live] = {}
    try:
        for name in names:
            lives[name] = Live(sys.executable, workload, parse(name))
            lives[name].steps(options.warm)
        turns = [
            {name: live.steps(options.steps)["cpu"] for name, live in lives.items()} for _ in range(options.rounds)
        ]
        entries = {name: lives[name].entries()["entries"] for name in names[1:]}
    finally:
        for live in lives.values():
            live.close()
    return [_row(title, pair, turns, entries) for title, pair in PAIRS.items()]


def _row(title: str, pair: tuple[str, str], turns: list[dict[str, float]], entries: dict[str, int]) -> list[str]:
    eager, compiled = ([turn[name] - turn[PLAIN] for turn in turns] for name in pair)
    ratios = [one / other for one, other in zip(compiled, eager, strict=True) if other > 0]
    if not ratios:
        return [title, *(str(entries[name]) for name in pair), *("-" for _ in HEAD[3:])]
    return [
        title,
        *(str(entries[name]) for name in pair),
        *(f"{statistics.median(each) * 1e3:.1f}" for each in ([turn[PLAIN] for turn in turns], eager, compiled)),
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    ]


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", help="as for collect.py; repeatable")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2, help="steps in a turn")
    parser.add_argument("--warm", type=int, default=3, help="steps before the first round: the graphs are made there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    for workload in options.workload or ["llama:layers=2,hidden=256,seq=128,vocab=1024", "conv", "ops:calls=200"]:
        rows = measure(workload, options)
        print(f"\n{workload}: {options.rounds} rounds of {options.steps} steps, load {os.getloadavg()[0]:.1f}\n")
        print(table.markdown(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
