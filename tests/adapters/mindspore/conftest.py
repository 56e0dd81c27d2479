"""A debugger per test, as for PyTorch; every test here is marked ``mindspore`` and left out without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters.pytorch.recorded import Recorded, read

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import these tests where they will not run: that would load MindSpore."""
    missing = importlib.util.find_spec("mindspore") is None
    return True if missing or "not mindspore" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.mindspore)


class Bench:
    """Opens debuggers that write into one folder and reads what they left there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, level: str = "L1", task: str = "statistics", section: Any = None, **fields: Any) -> Any:
        """A new debugger; the one before is closed first. Further fields go into the configuration as they are."""
        from msprobe.mindspore import PrecisionDebugger

        self.close()
        config = {"task": task, "level": level, "dump_path": str(self.root), task: section or {}, **fields}
        return PrecisionDebugger(config)

    def close(self) -> None:
        from msprobe.core.dump import handle
        from msprobe.mindspore import PrecisionDebugger

        session = handle.peek()
        if session is not None:
            handle.put(None)
            session.close()
        PrecisionDebugger._instance = None

    def read(self, step: int = 0) -> Recorded:
        """What lies in the only process folder of a step."""
        return read(self.root / f"step{step}")

    def array(self, name: str, step: int = 0) -> Any:
        return np.load(self.read(step).folder / "dump_tensor_data" / name)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    import mindspore

    mindspore.runtime.launch_blocking()  # an operator that fails does so where it is called
    mindspore.set_seed(0)
    opened = Bench(tmp_path / "dump")
    yield opened
    opened.close()
