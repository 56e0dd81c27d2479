"""The programs in ``examples/`` of the repository, without their faults."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests import forked
from tests.silent_errors.catalogue import ROOT
from tests.silent_errors.frame import options

EXAMPLES = ROOT / "examples"


def byte_transformer(out: Path) -> None:
    """The byte transformer, which records itself."""
    program = EXAMPLES / "byte_transformer" / "train.py"
    subprocess.run([forked.python(), str(program), "--out", str(out), "--steps", "3"], env=dict(os.environ), check=True)


def served(kind: str, out: Path) -> None:
    """A server and its requests: the journey of the example makes a run with a problem and one without."""
    program, folder = EXAMPLES / "serving" / "journey.py", out.with_name("journey")
    subprocess.run([forked.python(), str(program), kind, "--out", str(folder)], env=dict(os.environ), check=True)
    shutil.copytree(folder / "bench_dump", out)


if __name__ == "__main__":
    given = options()
    if given.name == "byte_transformer":
        byte_transformer(Path(given.out))
    else:
        served(given.name.replace("_", "-"), Path(given.out))
