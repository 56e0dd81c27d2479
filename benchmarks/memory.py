"""What collecting adds to resident memory: the peak of a process that records against the peak of one that does not.

Two differences count: from a process that never imports the tool (import, tables and records together), and from one
that constructs the debugger and never starts it (what recording alone adds). Peaks are medians over fresh processes,
since the allocator moves single ones by tens of megabytes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence

import table
from live import Live
from tools import OURS, parser_of, tools_of
from variants import parse

HEAD = ("tool", "variant", "peak MB", "over none", "over created")


def peaks(
    pythons: dict[str, str], variants: Sequence[str], options: argparse.Namespace
) -> dict[tuple[str, str], float]:
    """Median peak of every tool and variant, in 10^6 bytes."""
    pairs = [
        (tool, variant) for variant in variants for tool in pythons if tool == OURS or not parse(variant).only_ours
    ]
    seen: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for _ in range(options.repeats):
        for tool, variant in pairs:
            seen[tool, variant].append(_peak(pythons[tool], variant, options))
    return {key: statistics.median(values) for key, values in seen.items()}


def _peak(python: str, variant: str, options: argparse.Namespace) -> float:
    live = Live(python, options.workload, parse(variant))
    try:
        return live.steps(options.steps)["peak_mb"]
    finally:
        live.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--workload", default="llama:layers=4")
    parser.add_argument("--variants", default="L1.statistics", help="comma-separated; see variants.py")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3, help="fresh processes of each")
    options = parser.parse_args(arguments)
    pythons = tools_of(options)
    found = peaks(pythons, ["none", "created", *options.variants.split(",")], options)
    rows = [
        [
            tool,
            variant,
            *(table.figure(value, 0) for value in (peak, peak - found[tool, "none"], peak - found[tool, "created"])),
        ]
        for (tool, variant), peak in sorted(found.items())
    ]
    print(f"{options.workload}: {options.steps} steps, {options.repeats} processes each, load {os.getloadavg()[0]:.1f}")
    print(table.markdown(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
