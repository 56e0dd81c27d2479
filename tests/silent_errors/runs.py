"""Runs a program of the test bed in a process of its own (one per rank), and ``msprobe check`` on what it records."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import forked
from tests.silent_errors.catalogue import HERE, ROOT, Correct, Error

SECONDS = 240


@dataclass(frozen=True)
class Result:
    """The findings and hints of a run; ``failed`` is what a program or the check wrote when it did not end well."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    hints: list[dict[str, Any]] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)
    failed: str = ""


def run(program: Error | Correct, folder: Path, *, fault: bool = False) -> Result:
    """Run a program, record it below ``folder``, and check it."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "dump"
    failed = _record(program, out, fault)
    return Result(failed=failed) if failed else check(out)


def check(out: Path) -> Result:
    """Return what ``msprobe check`` says of a dump."""
    target = out.with_name("check.json")
    words = ["-m", "msprobe", "check", out, "--json", target]
    done = forked.run(words, env=_environment(), cwd=out.parent, timeout=SECONDS)
    if done.returncode:
        return Result(failed=(done.stdout + done.stderr).decode(errors="replace")[-3000:])
    document = json.loads(target.read_text(encoding="utf-8"))
    missing = {rule["name"]: rule["why"] for rule in document["rules"] if not rule["judged"]}
    return Result(document["findings"], document["hints"], missing)


def _record(program: Error | Correct, out: Path, fault: bool) -> str:
    """Run the ranks of a program at once; returns what they wrote if one of them failed."""
    words: list[object] = [program.file] if isinstance(program, Error) else [_file(program), program.name]
    if isinstance(program, Error) and program.group:
        words.append(program.name)
    words += ["--out", out, *(["--fault"] if fault else [])]
    ranks = program.ranks
    meeting = out.with_name("meeting")
    meeting.unlink(missing_ok=True)
    several = {"WORLD_SIZE": str(ranks), "RENDEZVOUS": str(meeting)} if ranks > 1 else {}
    processes = [
        forked.start(words, cwd=out.parent, env=_environment(**several, **({"RANK": str(rank)} if several else {})))
        for rank in range(ranks)
    ]
    try:
        logs = [process.communicate(timeout=SECONDS)[0].decode(errors="replace") for process in processes]
    except subprocess.TimeoutExpired:
        return f"it took longer than {SECONDS} seconds"
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return "\n".join(logs)[-3000:] if any(process.returncode for process in processes) else ""


def _file(program: Correct) -> Path:
    return HERE / "correct" / f"{program.file}.py"


def _environment(**more: str) -> dict[str, str]:
    """Return the environment of a program: it finds msprobe where this process does, and the tests."""
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if part)
    quiet = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": path, **more}
