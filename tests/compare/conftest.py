"""Trainings on one rank and on two, each run once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ranks import run_ranks

Trained = Callable[..., Path]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return a function: ``trained(kind, size, fault)`` is the dump of that training."""
    root = tmp_path_factory.mktemp("trained")
    dumps: dict[str, Path] = {}

    def dump(kind: str, size: int, fault: str = "") -> Path:
        name = f"{kind}{size}{fault}"
        if name not in dumps:
            dumps[name] = root / name
            run_ranks("tests.compare.parallel.job", size, lambda rank: (kind, rank, size, dumps[name], fault))
        return dumps[name]

    return dump
