"""What the commands cost: help, and compare of statistics, checksums and tensors over synthetic dumps.

The tools take turns. CPU includes child processes and the peak is that of the whole process tree. ``torch`` says
whether the command imported it, seen in a further run with PYTHONPROFILEIMPORTTIME, which is not timed. Beside the
medians stand the least CPU time, which other work on the machine disturbs least, and with ``--before TREE`` the ratios
to that tree: of the least CPU times, and the medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import command
import generate_checkpoint
import generate_dump
import table
from generate_dump import Wish
from tools import BEFORE, add_before, before_of, parser_of, tools_of

HEAD = ("command", "tool", "wall s", "CPU s", "least CPU s", "peak MB", "status", "MB written", "torch")
RATIOS = ("least CPU ratio", "CPU ratio", "wall ratio", "peak ratio")
OUTPUT = "{output}"
COMPILE = "import compileall, msprobe; compileall.compile_dir(msprobe.__path__[0], quiet=2)"
STEPS = 4
DEFAULT_CASES = "help,statistics:1000,statistics:10000,statistics:50000,md5:10000,tensor:500,xlsx:10000"
TENSOR_ENTRIES = 600
DRIFTED = ("fuzzy", "drift")
FLAGS = {"fuzzy": ["-fm"], "xlsx": ["--xlsx"]}
CHAINS = {"same": (0.0, 1.0), "tiny": (1e-7, 1.0), "some": (1e-3, 0.01)}


def arguments_of(case: str, folder: Path) -> list[str]:
    """``help``, ``MODE:ENTRIES`` or ``tensor:MEGABYTES`` (both sides together), as arguments of msprobe.

    ``fuzzy`` and ``drift`` are statistics of which one side lacks every hundredth call, with -fm and without;
    ``same``, ``tiny`` and ``some`` are statistics of one program, which are equal, differ by 1e-7 of each value, or in
    one tensor of a hundred. ``xlsx`` is statistics into a workbook; ``build`` and ``graph`` are graph_visualize of one
    and of two dumps; ``trend`` is data2db of ``STEPS`` steps of so many entries, ``checkpoint:MEGABYTES`` config_check
    of two checkpoints of so many megabytes together.
    """
    mode, _, size = case.partition(":")
    if mode == "help":
        return ["--help"]
    if mode == "trend":
        return ["data2db", "--db", OUTPUT, "--data", str(_steps(folder / "run", int(size))), "--format", "dump"]
    if mode == "checkpoint":
        pair = (generate_checkpoint.write(folder / str(seed), float(size) / 2, seed) for seed in (0, 1))
        return ["config_check", "-c", *map(str, pair), "-o", f"{OUTPUT}/ckpt_similarity.json"]
    if mode in ("build", "graph"):
        wishes = [Wish(int(size), seed=seed, modules=True) for seed in (0, 1)]
        target, golden = (str(generate_dump.write(folder / mode / size / str(wish.seed), wish)) for wish in wishes)
        return ["graph_visualize", "-tp", target, *(["-gp", golden] if mode == "graph" else []), "-o", OUTPUT]
    if mode in CHAINS:
        noise, share = CHAINS[mode]
        wishes = [Wish(int(size), seed=seed, noise=noise, share=share, chained=True) for seed in (0, 1)]
        sides = [str(generate_dump.write(folder / mode / size / str(wish.seed), wish)) for wish in wishes]
        return ["compare", "-tp", sides[0], "-gp", sides[1], "-o", OUTPUT]
    tensor, lost = mode == "tensor", 100 if mode in DRIFTED else 0
    recorded = "statistics" if lost or mode == "xlsx" else mode
    sides = []
    for seed in (0, 1):
        entries, megabytes = (TENSOR_ENTRIES, float(size) / 2) if tensor else (int(size), 0.0)
        wish = Wish(entries, recorded, seed, megabytes, lost * seed)
        sides.append(str(generate_dump.write(folder / mode / size / str(seed), wish)))
    return ["compare", "-tp", sides[0], "-gp", sides[1], "-o", OUTPUT, *FLAGS.get(mode, [])]


def _steps(root: Path, entries: int) -> Path:
    for step in range(STEPS):
        generate_dump.write(root / "one", Wish(entries, seed=step, modules=True)).rename(root / f"step{step}")
    (root / "one").rmdir()
    return root


class Bench:
    """Runs the commands of a tool in fresh output folders and keeps what they took."""

    def __init__(self, python: str, limit: float, environment: dict[str, str] | None = None) -> None:
        self.start = [python, str(Path(python).with_name("msprobe"))]
        self.limit = limit
        self.environment = environment or {}
        self.taken: list[command.Taken] = []
        self.written = 0
        # As pip does when it installs: a checkout may have no byte code. In a folder without an msprobe of its own.
        variables = {**os.environ, **self.environment}
        subprocess.run([python, "-c", COMPILE], check=True, env=variables, cwd=tempfile.gettempdir())

    def run(self, arguments: Sequence[str], environment: dict[str, str] | None = None) -> command.Taken:
        output = Path(tempfile.mkdtemp(prefix="msprobe-benchmark-"))
        try:
            filled = [word.replace(OUTPUT, str(output)) for word in arguments]
            taken = command.take([*self.start, *filled], self.limit, {**self.environment, **(environment or {})})
            self.written = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
        finally:
            shutil.rmtree(output, ignore_errors=True)
        return taken

    def imports(self, arguments: Sequence[str]) -> set[str]:
        """Modules that the command imports."""
        lines = self.run(arguments, {"PYTHONPROFILEIMPORTTIME": "1"}).output.splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    def row(self, case: str, tool: str, arguments: Sequence[str]) -> list[str]:
        ends = "/".join(sorted({str(taken.status) for taken in self.taken}))
        middle = [statistics.median(getattr(one, name) for one in self.taken) for name in ("wall", "cpu", "peak_mb")]
        imported = "yes" if "torch" in self.imports(arguments) else "no"
        written = table.figure(self.written / 1e6)
        times = [*middle[:2], self.least_cpu]
        return [case, tool, *map(table.figure, times), table.figure(middle[2], 0), ends, written, imported]

    @property
    def least_cpu(self) -> float:
        return min(one.cpu for one in self.taken)

    def ratios(self, before: Bench) -> list[str]:
        """How much more this tool took than another one that ran beside it; the columns ``RATIOS``."""
        rounds = list(zip(self.taken, before.taken, strict=True))
        medians = [
            statistics.median(getattr(own, name) / max(getattr(other, name), 1e-9) for own, other in rounds)
            for name in ("cpu", "wall", "peak_mb")
        ]
        return [table.figure(value, 3) for value in (self.least_cpu / before.least_cpu, *medians)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--cases",
        default=DEFAULT_CASES,
        help="help, statistics|same|tiny|some|md5|fuzzy|drift|xlsx|build|graph|trend:N, tensor|checkpoint:MB; "
        "comma-separated",
    )
    add_before(parser)
    parser.add_argument("--flags", default="", help="further arguments of every command, such as '--executor serial'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=200.0, help="seconds after which a command is stopped")
    options = parser.parse_args(arguments)
    pythons = tools_of(options)
    rows = []
    for case in options.cases.split(","):
        rows += rows_of(case, pythons, options)
    print(f"median of {options.rounds}, load {os.getloadavg()[0]:.1f}")
    print(table.markdown(HEAD + (RATIOS if options.before else ()), rows))
    return 0


def rows_of(case: str, pythons: dict[str, str], options: argparse.Namespace) -> list[list[str]]:
    """One line per tool; the synthetic dumps are made for the case and removed after it."""
    benches = {tool: Bench(python, options.limit) for tool, python in pythons.items()}
    benches |= {tool: Bench(options.python, options.limit, variables) for tool, variables in before_of(options).items()}
    with tempfile.TemporaryDirectory(prefix="msprobe-benchmark-") as folder:
        arguments = [*arguments_of(case, Path(folder)), *options.flags.split()]
        for _ in range(options.rounds):
            for bench in benches.values():
                bench.taken.append(bench.run(arguments))
        rows = {tool: bench.row(case, tool, arguments) for tool, bench in benches.items()}
        if BEFORE in benches:
            for tool, bench in benches.items():
                rows[tool] += ["-"] * len(RATIOS) if tool == BEFORE else bench.ratios(benches[BEFORE])
        return list(rows.values())


if __name__ == "__main__":
    sys.exit(main())
