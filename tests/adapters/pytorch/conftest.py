"""A debugger per test: the process has one, so every test ends the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pytorch.recorded import Recorded, read


class Bench:
    """Opens debuggers that write into one folder and reads what they left there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, level: str = "L1", task: str = "statistics", section: Any = None, **fields: Any) -> Any:
        """A new debugger; the one before is closed first. Further fields go into the configuration as they are."""
        from msprobe.pytorch import PrecisionDebugger

        self.close()
        config = {"task": task, "level": level, "dump_path": str(self.root), task: section or {}, **fields}
        return PrecisionDebugger(config)

    def close(self) -> None:
        """End the debugger of the process as its exit would, and forget it."""
        from msprobe.core.dump import handle
        from msprobe.pytorch import PrecisionDebugger

        session = handle.peek()
        if session is not None:
            handle.put(None)
            session.close()
        PrecisionDebugger._instance = None

    def read(self, step: int = 0) -> Recorded:
        """What lies in the only process folder of a step."""
        return read(self.root / f"step{step}")

    def steps(self) -> list[str]:
        return sorted(path.name for path in self.root.glob("*"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(tmp_path / "dump")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch

    torch.manual_seed(0)
