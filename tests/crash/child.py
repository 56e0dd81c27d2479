"""Start the dying training as a process of its own and read what it said and what it left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msprobe.core.store.journal import fold
from tests import forked
from tests.forked import ForkedProcess

ROOT = Path(__file__).parents[2]
TRAINING = Path(__file__).with_name("training.py")
QUIET = {"MSPROBE_LOG_LEVEL": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}


def start(
    dump_path: Path,
    level: str = "mix",
    steps: int = 50,
    calls: int = 100,
    task: str = "statistics",
    words: Sequence[str] = (),
    env: Mapping[str, str] = QUIET,
) -> ForkedProcess:
    """Start the training; its calls and the log lines of the tool come on ``stdout`` of the process."""
    arguments = [str(dump_path), level, str(steps), str(calls), task, *words]
    return forked.start([TRAINING, *arguments], env=env, unbuffered=True)


def wait_for(process: ForkedProcess, calls: int, seconds: float = 0.0) -> list[bytes]:
    """Read lines until ``calls`` calls were announced, the last of them ``seconds`` after the first."""
    lines: list[bytes] = []
    times: list[float] = []
    while len(times) < max(calls, 1) or times[-1] - times[0] < seconds:
        line = process.stdout.readline()
        assert line, b"".join(lines).decode()
        lines.append(line)
        times += [at for at, _ in announced([line])]
    return lines


def announced(lines: list[bytes]) -> Iterator[tuple[float, int]]:
    """Time and number of the announced calls, in order."""
    for line in lines:
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            yield float(words[0]), int(words[1])


def lateness(lines: list[bytes], until: float) -> float:
    """How many seconds a thread of the training that wants to run every 50 ms was late at most, in the last second."""
    beats = [float(line.split()[1]) for line in lines if line.startswith(b"beat ")]
    recent = [at for at in beats if until - 1 < at < until]
    return max(0.0, *(late - early - 0.05 for early, late in pairwise([*(recent or beats[-1:]), until])))


def check_files(root: Path) -> list[Path]:
    """Every file below ``root`` must be readable; returns the journals, each of which folds.

    A process that was killed while it created a journal leaves one without a header, and without records.
    """
    journals = []
    for path in sorted(root.rglob("*")):
        if path.suffix == ".json":
            assert isinstance(json.loads(path.read_bytes()), dict), path
        elif path.name == "dump.journal":
            folded = fold(path)
            assert folded.header.get("task") in ("statistics", "tensor") or not (folded.header or folded.data), path
            journals.append(path)
    return journals
