"""One debugger per test, and its dumps read back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cli.collection.test_run import ATTACHED
from tests.fresh_debugger import forget
from tests.rules.tree import ROOT


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

    def run(self, script: Path, **config: Any) -> str:
        """Run a script as ``msprobe run`` does, in a process that has imported torch; returns what it printed."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        done = forked.run([ATTACHED, self.config(**config), "", script], cwd=script.parent, env=environment)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()


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
