"""A watched configuration file: when it is looked at, and what is seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import DISABLED_SECONDS, ENABLED_SECONDS, RETRY_SECONDS, SETTLING_SECONDS, ConfigWatch
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

    def fault(self, after: float, enabled: bool = True) -> str | None:
        self.now += after
        found = self.watch.poll(enabled)
        assert found is None or found.config is None
        return None if found is None else found.fault


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


UNUSABLE = ["", "{", '{"task": 5, "dump_path": "x"}', "[]", "\x00"]


@pytest.mark.parametrize("text", UNUSABLE)
def test_an_unusable_file_may_be_half_written_and_changes_nothing_yet(watched: Watched, text: str) -> None:
    watched.path.write_text(text)
    watched.now += 10
    assert watched.watch.poll(True) is None
    watched.write(level="L0")
    assert watched.levels(RETRY_SECONDS - 0.01) is None
    assert watched.levels(0.02) == "L0"


@pytest.mark.parametrize("text", UNUSABLE)
def test_a_file_that_stays_unusable_is_an_answer_and_is_looked_at_again(watched: Watched, text: str) -> None:
    watched.path.write_text(text)
    assert watched.fault(10) is None
    assert watched.fault(SETTLING_SECONDS)
    assert watched.fault(ENABLED_SECONDS - 0.01, enabled=False) is None
    assert watched.fault(0.02, enabled=False)
    watched.write(level="L0")
    assert watched.levels(ENABLED_SECONDS + 0.01, enabled=False) == "L0"


def test_each_time_it_becomes_unusable_it_may_be_half_written(watched: Watched) -> None:
    for level in ("L0", "mix"):
        watched.path.write_text("{")
        assert watched.fault(10) is None
        watched.write(level=level)
        assert watched.levels(SETTLING_SECONDS) == level


def test_force_takes_the_file_as_it_is_and_it_is_looked_at_again_soon(watched: Watched) -> None:
    watched.path.write_text("{")
    found = watched.watch.poll(True, force=True)
    assert found is not None and found.config is None and found.fault
    watched.write(level="L0")
    assert watched.levels(RETRY_SECONDS + 0.01, enabled=False) == "L0"


def test_a_file_that_is_gone_is_broken(watched: Watched) -> None:
    watched.path.unlink()
    assert watched.fault(10) is None
    assert "config.json" in (watched.fault(SETTLING_SECONDS) or "")


def test_what_cannot_be_served_is_broken_too(watched: Watched) -> None:
    watched.refused = "L2"
    watched.write(level="L2", task="tensor", tensor={"list": ["Torch.add.0.forward"]})
    assert watched.fault(10) is None
    assert "not here" in (watched.fault(SETTLING_SECONDS) or "")


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
