"""Collectives inside compiled code: recorded once each, with their results and groups, as those of the eager model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.adapters.pytorch.compile.recompilation import supported
from tests.matrices import matrix_params
from tests.ranks import run_ranks

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not supported(), reason="this torch has no operators with an ordered effect"),
]
BACKENDS = ["aot_eager", "inductor"]
IN_CI = ["aot_eager"]
EACH = pytest.mark.parametrize("backend", matrix_params("wide", BACKENDS, IN_CI))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    backends = BACKENDS if pytestconfig.getoption("matrix") else IN_CI
    run_ranks("tests.adapters.pytorch.distributed.compiled_job", 2, lambda rank: (rank, folder, *backends))
    return folder


def collectives(folder: Path, backend: str, rank: int) -> dict[str, Any]:
    data = json.loads((folder / backend / "step0" / f"rank{rank}" / "dump.json").read_text())["data"]
    return {name: record for name, record in data.items() if name.startswith("Distributed.")}


@EACH
@pytest.mark.parametrize("rank", [0, 1])
def test_each_collective_is_recorded_once(folder: Path, backend: str, rank: int) -> None:
    expected, found = collectives(folder, "none", rank), collectives(folder, backend, rank)
    assert list(found) == [
        f"Distributed.{name}.forward" for name in ("all_reduce.0", "all_gather_tensor.0", "all_reduce.1")
    ]
    for name, record in found.items():
        assert record["group_id"] == expected[name]["group_id"]
        assert record["output"][0]["Norm"] == pytest.approx(expected[name]["output"][0]["Norm"], rel=1e-5)


@EACH
def test_the_compiled_run_is_that_of_the_eager_model(folder: Path, backend: str) -> None:
    assert msprobe.compare(folder / backend, folder / "none").verdict == "same"
