"""A bench per test; every test here is marked ``mindspore`` and left out without it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.bench import Bench

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import these tests where they will not run: that would load MindSpore."""
    missing = importlib.util.find_spec("mindspore") is None
    return True if missing or "not mindspore" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.mindspore)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    import mindspore

    mindspore.runtime.launch_blocking()  # an operator that fails does so where it is called
    mindspore.set_seed(0)
    opened = Bench(tmp_path / "dump", "msprobe.mindspore")
    yield opened
    opened.close()
