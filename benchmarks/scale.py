"""How the cost of a record grows: steps of 1 000, 10 000, 50 000 records, and the fixed cost of one API call.

The workload is one function on 16 elements, so that the mathematics is free and what is left is the tool. A row is
(CPU of the recorded step - CPU of the plain step) / records, with the bytes given to write calls against the bytes on
disk in the end. The fixed cost of a call is the part of the step before ``stop``, which folds the files.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import table
from live import Live
from tools import parser_of, tools_of
from variants import parse

HEAD = ("tool", "records", "us/record", "of it before stop", "MB written", "MB on disk", "written/disk", "peak MB")


def row(tool: str, python: str, variant: str, calls: int, options: argparse.Namespace) -> list[str]:
    """One step of ``calls`` recorded calls in a process of its own: the cheapest of a few repeats."""
    workload = f"ops:calls={calls},elements={options.elements}"
    plain = _cheapest(python, workload, "none", options.repeats)
    own = _cheapest(python, workload, variant, options.repeats)
    records = int(own["entries"])
    if not records:
        raise RuntimeError(f"{tool} recorded nothing of {workload}")
    return [
        tool,
        str(records),
        table.figure((own["cpu"] - plain["cpu"]) / records * 1e6, 1),
        table.figure((own["during"] - plain["during"]) / records * 1e6, 1),
        table.figure(own["written"] / 1e6),
        table.figure(own["on_disk"] / 1e6),
        table.figure(own["written"] / own["on_disk"]),
        table.figure(own["peak_mb"], 0),
    ]


def _cheapest(python: str, workload: str, variant: str, repeats: int) -> dict[str, float]:
    live = Live(python, workload, parse(variant))
    try:
        live.steps(1)
        turns = [live.steps(1) for _ in range(repeats)]
        return {**min(turns, key=lambda turn: turn["cpu"]), **live.entries()}
    finally:
        live.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--variant", default="L1.statistics", help="see variants.py")
    parser.add_argument("--calls", default="1000,10000,50000", help="calls in a step, comma-separated")
    parser.add_argument("--elements", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    pythons = tools_of(options)
    counts = [int(text) for text in options.calls.split(",")]
    rows = [row(tool, python, options.variant, calls, options) for calls in counts for tool, python in pythons.items()]
    print(f"{options.variant}: cheapest of {options.repeats}, load {os.getloadavg()[0]:.1f}")
    print(table.markdown(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
