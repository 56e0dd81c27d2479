"""Recordings of a program: without msprobe, twice with ``msprobe run``, and once more with each fault."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests import forked
from tests.public_programs.catalogue import BY_NAME
from tests.rules.tree import ROOT

ATTACHED = ROOT / "tests" / "cli" / "collection" / "attached.py"
ALONE, FIRST, SECOND = "alone", "first", "second"


def record(folder: Path, name: str) -> None:
    """Fill ``folder`` with the recordings of a program, each with its output in ``{recording}.log``."""
    program, script = BY_NAME[name], folder / "train.py"
    script.write_text(program.text, encoding="utf-8")
    _run(folder, ALONE, [script])
    for recording in (FIRST, SECOND):
        _run_attached(folder, recording, script)
    for number, fault in enumerate(program.faults):
        script.write_text(fault.in_text(program.text), encoding="utf-8")
        _run_attached(folder, faulty(number), script)


def faulty(number: int) -> str:
    return f"faulty{number}"


def output(folder: Path, recording: str) -> list[str]:
    """Return what the program printed in a recording, without the lines of msprobe."""
    return (folder / f"{recording}.log").read_text(encoding="utf-8").splitlines()


def _run_attached(folder: Path, recording: str, script: Path) -> None:
    config = folder / f"{recording}.json"
    config.write_text(json.dumps({"dump_path": str(folder / recording), "level": "mix"}), encoding="utf-8")
    _run(folder, recording, [ATTACHED, config, "", script])


def _run(folder: Path, recording: str, words: list[object]) -> None:
    done = forked.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder)
    lines = done.stdout.decode().splitlines()
    printed = [line for line in lines if "[INFO]" not in line and "[WARNING]" not in line]
    (folder / f"{recording}.log").write_text("\n".join(printed), encoding="utf-8")
    (folder / f"{recording}.messages").write_text("\n".join(lines) + done.stderr.decode(), encoding="utf-8")
    assert done.returncode == 0, done.stderr.decode()
