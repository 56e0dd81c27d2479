"""A disk that fails is one error line; the training ends as if the tool were not there."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from msprobe.core.store.journal import fold
from tests import forked
from tests.crash.child import QUIET, check_files, start

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk to be had: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def finish(folder: Path, **options: int) -> list[str]:
    """Let the training run to its end; returns the error lines. No other line says that the dump is there."""
    process = start(folder, steps=1, **options)
    out, _ = process.communicate(timeout=60)
    text = out.decode()
    assert process.returncode == 0, text
    assert text.endswith("finished\n")
    assert "Traceback" not in text
    assert "dump.json is at" not in text
    errors = [line for line in text.splitlines() if "[ERROR]" in line]
    assert errors[-1].lower().endswith("choose another dump_path.")
    assert ("Free some space" in errors[-1]) is ("No space left" in errors[-1])
    assert ("collecting step" in text) is ("cannot create" not in errors[-1])
    return errors


def test_disk_full(small_disk: Path) -> None:
    errors = finish(small_disk)
    assert len(errors) == 1
    assert "No space left on device" in errors[0]
    assert str(small_disk) in errors[0]
    assert not list(small_disk.rglob("*.tmp"))
    (journal,) = check_files(small_disk)
    calls = [name.split(".")[2] for name in fold(journal).data if re.fullmatch(r".*softplus\.\d+\.forward", name)]
    assert calls == [str(number) for number in range(len(calls))]  # all that found room, without a gap
    assert len(calls) >= 10


def test_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir(mode=0o755)
    if os.getuid() == 0:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True)
        if mounted.returncode:
            pytest.skip("root may write anywhere, and nothing can be mounted here")
    else:
        folder.chmod(0o555)
    try:
        errors = finish(folder)
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", str(folder)], check=True)
        else:
            folder.chmod(0o755)
    assert len(errors) == 1
    assert str(folder) in errors[0]


def test_dump_path_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("mine", encoding="utf-8")
    (error,) = finish(path)
    assert f"({path} is a file and no folder)" in error
    assert path.read_text(encoding="utf-8") == "mine"


RANDOM = """
import sys
import torch
from msprobe.pytorch import random_save
random_save(sys.argv[1])
for _ in range(5000):
    torch.rand(1)
print("finished")
"""


def test_disk_full_of_random_calls(small_disk: Path) -> None:
    command = [forked.python(), "-c", RANDOM, str(small_disk / "calls")]
    done = subprocess.run(command, env=QUIET, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("finished\n")
    (error,) = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
    assert "No space left on device): random calls are listed no more, the run goes on" in error
    (table,) = (small_disk / "calls").iterdir()
    with table.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["api_name", "stack"]
    assert [row[0] for row in rows] == [f"torch_random.rand.{number}" for number in range(len(rows))]
    assert all(len(row) == 2 and row[1].endswith("\n") for row in rows)
    assert len(rows) > 100
