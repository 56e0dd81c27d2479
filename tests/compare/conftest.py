"""Trainings on one rank and on two, each run once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ranks import run_ranks
from tests.recordings import Recordings

Trained = Callable[..., Path]


def train(folder: Path, kind: str, size: int, fault: str) -> None:
    run_ranks("tests.compare.parallel.job", size, lambda rank: (kind, rank, size, folder / "dump", fault))


@pytest.fixture(scope="session")
def trained(recordings: Recordings) -> Trained:
    """Return a function: ``trained(kind, size, fault)`` is the dump of that training."""
    return lambda kind, size, fault="": recordings(train, kind, size, fault) / "dump"
