"""One debugger per test, and its dumps read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fresh_debugger import forget


class Bench:
    """A folder with a configuration, and what was dumped into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dump = folder / "dump"

    def config(self, **fields: Any) -> str:
        path = self.folder / "config.json"
        path.write_text(json.dumps({"dump_path": str(self.dump), "level": "L0", **fields}))
        return str(path)

    def folders(self) -> list[str]:
        """Process folders below the dump, as ``step0/rank0``; ``proc{pid}`` reads ``proc``."""
        found = {path.parent for path in self.dump.rglob("d*.json") if path.name in ("dump.json", "debug.json")}
        names = [path.relative_to(self.dump).as_posix() for path in found]
        return sorted(name.rsplit("proc", 1)[0] + "proc" if "proc" in name else name for name in names)

    def entries(self, folder: str, document: str = "dump.json") -> dict[str, Any]:
        (path,) = self.dump.glob(f"{folder}*/{document}" if folder.endswith("proc") else f"{folder}/{document}")
        data: dict[str, Any] = json.loads(path.read_text())["data"]
        return data

    def modules(self, folder: str) -> list[str]:
        """The forward entries of modules, without their prefix."""
        names = self.entries(folder)
        return [name.removeprefix("Module.") for name in names if name.startswith("Module.") and ".forward." in name]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    forget()
    yield Bench(tmp_path)
    forget()


@pytest.fixture
def random_again() -> Iterator[None]:
    """torch as it was, after a server that called ``seed_all(mode=True)``."""
    yield
    pytest.importorskip("torch").use_deterministic_algorithms(False)
