"""Run a group of random programs without and with the tool, in a process of its own.

python -m tests.adapters.mindspore.watched_programs 12 FOLDER

runs the programs of seeds 12 to 23, with another level and task each, and prints one line of JSON: the number of calls
that were recorded, and the first difference as a text. Wrong calls and gradients that fail are part of the programs;
once in thousands of runs MindSpore ends its process there, with whatever else the process has to do.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path
from typing import Any

import mindspore

from tests.adapters.bench import Bench
from tests.adapters.mindspore.random_programs import PROGRAMS
from tests.adapters.random_programs import differences

TASKS: list[tuple[str, dict[str, Any]]] = [
    ("statistics", {}),
    ("statistics", {"summary_mode": "md5"}),
    ("statistics", {"summary_mode": "xor"}),
    ("tensor", {}),
]
COMBINATIONS = [(level, task, section) for level in ("L0", "L1", "mix") for task, section in TASKS]
GROUP = len(COMBINATIONS) // 2
"""Programs of one test: one has each level and each task, two have each level with each task. They make about 500
records."""
RARE_SHARE = 0.05
"""Share of the blocks that compile."""


def watched(first: int, folder: Path) -> dict[str, Any]:
    """Return the number of recorded calls of a group of programs, and what differs; None where nothing does."""
    mindspore.runtime.launch_blocking()  # an operator that fails does so where it is called
    bench = Bench(folder, "msprobe.mindspore")
    calls: list[int] = []
    for seed in range(first, first + GROUP):
        text = PROGRAMS.text(seed, rare=RARE_SHARE)
        settings = COMBINATIONS[7 * seed % len(COMBINATIONS)]
        found = differences(bench, PROGRAMS, text, settings, calls.append)
        if found:
            bench.close()
            return {"calls": sum(calls), "found": f"{found[0]}\n\nseed {seed}, {settings}; the program:\n{text}"}
    bench.close()
    return {"calls": sum(calls), "found": None}


if __name__ == "__main__":
    faulthandler.enable()
    print(json.dumps(watched(int(sys.argv[1]), Path(sys.argv[2]))))
