"""A bench per test, the same random numbers in each, a compiler that has seen nothing yet, and one job of two ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.bench import Bench
from tests.adapters.pytorch.distributed.two_rank_job import Job, run_job


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(tmp_path / "dump", "msprobe.pytorch")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch

    torch.manual_seed(0)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Nothing that was compiled before counts here, and what is compiled here counts for nothing after."""
    import torch._dynamo

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return what the job of two ranks left; it runs once for all tests that look at it."""
    return run_job(tmp_path_factory.mktemp("job"))
