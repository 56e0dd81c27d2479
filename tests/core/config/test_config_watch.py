"""A watched configuration file: when it is looked at, and what is seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import DISABLED_SECONDS, ENABLED_SECONDS, ConfigWatch
from msprobe.core.errors import ConfigError, Problem


class Watched:
    """A file, a clock that is set by hand, and the watch on both."""

    def __init__(self, path: Path, **given: Any) -> None:
        self.path = path
        self.now = 100.0
        self.refused: str | None = None
        self.write(level="L1")
        self.watch = ConfigWatch(path, given, self.accept, lambda: self.now)

    def accept(self, config: DumpConfig) -> None:
        if config.level == self.refused:
            raise ConfigError([Problem("level", config.level, "not here")])

    def write(self, **fields: Any) -> None:
        self.path.write_text(json.dumps({"dump_path": "out", "dump_enable": True, **fields}))
        self.touch()

    def touch(self) -> None:
        """Another time of change, whatever the clock of the file system resolves."""
        status = self.path.stat()
        os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))

    def levels(self, after: float, enabled: bool = True) -> str | None:
        self.now += after
        found = self.watch.poll(enabled)
        return None if found is None or found.config is None else found.config.level


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "config.json")


@pytest.mark.parametrize(("enabled", "pause"), [(True, ENABLED_SECONDS), (False, DISABLED_SECONDS)])
def test_the_file_is_looked_at_only_after_a_pause(watched: Watched, enabled: bool, pause: float) -> None:
    watched.write(level="L0")
    assert watched.levels(pause - 0.01, enabled) is None
    assert watched.levels(0.02, enabled) == "L0"


def test_an_unchanged_file_is_not_read_again(watched: Watched) -> None:
    assert watched.levels(10) is None
    watched.write(level="L0")
    assert watched.levels(10) == "L0"
    assert watched.levels(10) is None


def test_force_reads_at_once(watched: Watched) -> None:
    found = watched.watch.poll(True, force=True)
    assert found is not None and found.config is not None


@pytest.mark.parametrize("text", ["", "{", '{"task": 5, "dump_path": "x"}', "[]", "\x00"])
def test_a_broken_file_is_an_answer_and_is_looked_at_again(watched: Watched, text: str) -> None:
    watched.path.write_text(text)
    watched.now += 10
    found = watched.watch.poll(True)
    assert found is not None and found.config is None and found.fault
    watched.now += 10
    again = watched.watch.poll(False)
    assert again is not None and again.config is None
    watched.write(level="L0")
    assert watched.levels(10) == "L0"


def test_a_file_that_is_gone_is_broken(watched: Watched) -> None:
    watched.path.unlink()
    watched.now += 10
    found = watched.watch.poll(True)
    assert found is not None and found.config is None and "config.json" in found.fault


def test_what_cannot_be_served_is_broken_too(watched: Watched) -> None:
    watched.refused = "L2"
    watched.write(level="L2", task="tensor", tensor={"list": ["Torch.add.0.forward"]})
    watched.now += 10
    found = watched.watch.poll(True)
    assert found is not None and found.config is None and "not here" in found.fault


def test_arguments_beat_the_file_at_every_reload(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "config.json", level="mix")
    watched.write(level="L0")
    assert watched.levels(10) == "mix"


def test_the_file_is_found_after_a_change_of_folder(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(watched.path.parent)
    watch = ConfigWatch("config.json", {}, watched.accept, lambda: watched.now)
    monkeypatch.chdir("/")
    found = watch.poll(True, force=True)
    assert found is not None and found.config is not None
