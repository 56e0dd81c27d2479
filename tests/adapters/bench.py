"""A debugger per test: the process has one, so every test ends the one before it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.adapters.recorded import Recorded, read
from tests.fresh_debugger import forget


class Bench:
    """Opens debuggers of one facade, ``msprobe.pytorch`` or ``msprobe.mindspore``, that write into one folder, and
    reads what they left there.
    """

    def __init__(self, root: Path, facade: str) -> None:
        self.root = root
        self._facade = facade

    def open(self, level: str = "L1", task: str = "statistics", section: Any = None, **fields: Any) -> Any:
        """A new debugger; the one before is closed first. Further fields go into the configuration as they are."""
        self.close()
        config = {"task": task, "level": level, "dump_path": str(self.root), task: section or {}, **fields}
        return importlib.import_module(self._facade).PrecisionDebugger(config)

    def close(self) -> None:
        forget(self._facade)

    def read(self, step: int = 0) -> Recorded:
        """What lies in the only process folder of a step."""
        return read(self.root / f"step{step}")

    def array(self, name: str, step: int = 0) -> Any:
        return np.load(self.read(step).folder / "dump_tensor_data" / name)

    def steps(self) -> list[str]:
        return sorted(path.name for path in self.root.glob("*"))
