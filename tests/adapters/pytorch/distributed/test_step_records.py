"""Parameters after a step and gradients before it have their own names, whatever shards or wraps the model."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pytorch.distributed.stepped import KINDS
from tests.ranks import run_ranks

pytestmark = pytest.mark.slow
NAMES = ["0.weight", "0.bias", "2.weight"]
CUT = ("flat", "sharded")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stepped")
    run_ranks("tests.adapters.pytorch.distributed.stepped", 2, lambda rank: (rank, out))
    return out


def header(folder: Path, kind: str, rank: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / kind / "step0" / f"rank{rank}" / "dump.json").read_text())
    return document


def norms(kind: str, ranks: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Norms of whole tensors: of the shards of both ranks, or of the first of two copies."""
    squares: dict[str, float] = defaultdict(float)
    for items in ranks if kind in CUT else ranks[:1]:
        for item in items:
            squares[item["name"]] += (item["value"]["Norm"] or 0.0) ** 2
    return {name: math.sqrt(square) for name, square in squares.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_and_gradients_are_those_of_the_plain_model(folder: Path, kind: str) -> None:
    expected = json.loads((folder / "whole0.json").read_text())
    headers = [header(folder, kind, rank) for rank in range(2)]
    assert [item["name"] for item in headers[0]["parameters_after_step"]] == NAMES
    after = norms(kind, [document["parameters_after_step"] for document in headers])
    assert after == pytest.approx(expected["parameters"], rel=1e-4)
    gradients = norms(kind, [document["gradients_of_step"][0]["gradients"] for document in headers])
    assert gradients == pytest.approx(expected["gradients"], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_optimizers_name_the_parameters_of_the_plain_model(folder: Path, kind: str) -> None:
    optimizers = header(folder, kind, 0).get("optimizers", [])
    classes = {"by_hand": [], "zero": ["ZeroRedundancyOptimizer", "SGD"]}
    assert [item["class"] for item in optimizers] == classes.get(kind, ["SGD"])
    assert all(item["groups"][0]["parameters"] == NAMES for item in optimizers[:1])
