"""Small trend databases: two runs of three ranks, one of them with a spike, a NaN and a drift."""

from __future__ import annotations

from pathlib import Path

from msprobe.trend.growing import GrowingDatabase, Mark, Point

NAMES = ["embed.weight", *(f"layers.{layer}.mlp.weight" for layer in range(12)), "head.weight"]
STEPS, RANKS = 40, 3
SPIKE = 12, 1, "layers.2.mlp.weight"
"""Step, rank and name of a value that is 1000 times as large."""
NOT_A_NUMBER = 30, 2, "layers.10.mlp.weight"
DRIFT = 20
"""The step from which on the head of rank 0 moves by a twentieth."""
METRIC = "grad_reduced"


def value_of(name: str, step: int, rank: int) -> float:
    """Return the norm of a tensor in a run without faults."""
    return (1.0 + NAMES.index(name)) * (1.0 + rank / 10) / (1.0 + step)


def points(rank: int, steps: range, faults: bool = False) -> list[Point]:
    """Return the points of a rank."""
    result = []
    for step in steps:
        for name in NAMES:
            value = value_of(name, step, rank)
            if faults and (step, rank, name) == SPIKE:
                value *= 1000.0
            if faults and (step, rank, name) == NOT_A_NUMBER:
                value = float("nan")
            if faults and rank == 0 and step >= DRIFT and name == "head.weight":
                value *= 1.05
            target = name, 0, 0
            result.append(Point(METRIC, target, step, {"norm": value, "max": value / 2, "min": -value / 2}))
    return result


def write_run(path: Path, faults: bool = False, steps: range = range(STEPS), settled: bool = True) -> Path:
    """Write, or add to, a database."""
    with GrowingDatabase(path) as database:
        for rank in range(RANKS):
            with database.transaction():
                database.prepare(["norm", "max", "min"], [METRIC])
                database.add(rank, points(rank, steps, faults))
        if faults and SPIKE[0] in steps:
            with database.transaction():
                step, rank, name = SPIKE
                database.mark(rank, [Mark(METRIC, (name, 0, 0), step, "norm", "spike: norm is 3000, usually 3")])
        if settled:
            database.settle()
    return path
