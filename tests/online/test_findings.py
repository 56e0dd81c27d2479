"""The tables of findings: of a step, and of all ranks together."""

from __future__ import annotations

import csv
import multiprocessing
from pathlib import Path

import numpy as np

from msprobe.core.backend.replaying import HeldTensor
from msprobe.online.findings import COLUMNS, FURTHER_COLUMNS, Finding, FindingTables

VALUE = HeldTensor(np.ones((2, 3), np.float32), "bfloat16")


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def add(root: Path, rank: int) -> None:
    tables = FindingTables(root, lambda: root / "step0" / f"rank{rank}")
    for number in range(20):
        head = (str(rank), "bit_noise", "forward", "0", f"Torch.exp.{number}.forward")
        tables.add(head, [Finding(0, "overflow", "=cmd|' /C calc'!A0", 0.25, VALUE, 12.0)], "train.py:3 in f: x, y")


def test_ranks_share_one_table(tmp_path: Path) -> None:
    workers = [multiprocessing.get_context("spawn").Process(target=add, args=(tmp_path, rank)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    head, *lines = read(tmp_path / "free_benchmark.csv")
    assert tuple(head) == COLUMNS
    assert len(lines) == 40 and all(len(line) == len(COLUMNS) for line in lines)
    for rank in range(2):
        assert len(read(tmp_path / "step0" / f"rank{rank}" / "free_benchmark.csv")) == 21
    assert list(tmp_path.glob(".*")) == []


def test_what_a_line_says(tmp_path: Path) -> None:
    add(tmp_path, 0)
    head, line, *_ = read(tmp_path / "free_benchmark_details.csv")
    assert tuple(head) == (*COLUMNS, *FURTHER_COLUMNS)
    assert line[5:] == ["0.25", "bfloat16", "[2, 3]", "0", "overflow", "12", "", "", "train.py:3 in f: x, y", line[-1]]
    assert not line[-1].startswith("=")  # no formula in a spreadsheet
