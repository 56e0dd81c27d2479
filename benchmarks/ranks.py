"""What a comparison of many ranks costs per rank: wall, CPU and peak memory of the process tree, per executor.

The ranks are hard links to one synthetic pair, so that a dump of hundreds of ranks needs the disk of one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import command
import generate_dump
import table
from generate_dump import Wish

HEAD = ("executor", "ranks", "wall s", "CPU s", "CPU ms per rank", "wall ms per rank", "peak MB", "status")


def simulate(folder: Path, entries: int, ranks: int) -> list[str]:
    """Two dumps of ``ranks`` ranks, as the arguments of compare."""
    found = []
    for flag, seed in (("-tp", 1), ("-gp", 0)):
        step = generate_dump.write(folder / str(seed), Wish(entries, "statistics", seed))
        for rank in range(1, ranks):
            copy = step / f"rank{rank}"
            copy.mkdir()
            for document in (step / "rank0").iterdir():
                os.link(document, copy / document.name)
        found += [flag, str(step)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="python that has msprobe (default: this one)")
    parser.add_argument("--ranks", default="1,16,64,256", help="numbers of ranks; comma-separated")
    parser.add_argument("--entries", type=int, default=1000, help="entries of a rank")
    parser.add_argument("--executors", default="processes", help="values of --executor; comma-separated")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a command is stopped")
    options = parser.parse_args(arguments)
    rows = [row for ranks in map(int, options.ranks.split(",")) for row in rows_of(ranks, options)]
    print(f"{options.entries} entries per rank, median of {options.rounds}, load {os.getloadavg()[0]:.1f}")
    print(table.markdown(HEAD, rows))
    return 0


def rows_of(ranks: int, options: argparse.Namespace) -> list[list[str]]:
    """One line per executor; the synthetic dumps are made for them and removed afterwards."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="msprobe-benchmark-") as folder:
        words = [options.python, "-m", "msprobe", "compare", *simulate(Path(folder), options.entries, ranks)]
        output = Path(folder) / "output"
        for executor in options.executors.split(","):
            taken = []
            while len(taken) < options.rounds:
                arguments = ["-o", str(output), "--executor", executor]
                taken.append(command.take([*words, *arguments], options.limit))
                shutil.rmtree(output, ignore_errors=True)
            rows.append(_row(executor, ranks, taken))
    return rows


def _row(executor: str, ranks: int, taken: Sequence[command.Taken]) -> list[str]:
    wall, cpu, peak = (statistics.median(getattr(one, name) for one in taken) for name in ("wall", "cpu", "peak_mb"))
    ends = "/".join(sorted({str(one.status) for one in taken}))
    per_rank = [table.figure(1000 * seconds / ranks) for seconds in (cpu, wall)]
    return [executor, str(ranks), table.figure(wall), table.figure(cpu), *per_rank, table.figure(peak, 0), ends]


if __name__ == "__main__":
    sys.exit(main())
