"""The other end of ``worker.py``: starts a worker under any python, asks it, and cleans up after it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from variants import Variant

WORKER = Path(__file__).with_name("worker.py")
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}


class Live:
    """A worker process; RuntimeError with the end of its output when it dies."""

    def __init__(self, python: str, workload: str, variant: Variant) -> None:
        self.python = python
        self.variant = variant
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe-benchmark-"))
        self.log = self.folder / "log.txt"
        job = {"workload": workload, "variant": variant.text, "folder": str(self.folder)}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python, str(WORKER), json.dumps(job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                env={**os.environ, **QUIET, **variant.environment},
            )
        self.ready = self._read()

    def steps(self, count: int) -> dict[str, float]:
        """Run steps in the worker; see ``worker.Subject.steps``."""
        answer: dict[str, float] = self._ask(f"steps {count}")
        return answer

    def entries(self) -> dict[str, int]:
        """How many ``entries`` the last step's dump.json has, and how many of them are forward ``calls``."""
        found: dict[str, int] = self._ask("entries")
        return found

    def close(self) -> None:
        """End the worker and remove what it wrote."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, request: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            end = self.log.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise RuntimeError(f"worker {self.variant.text} of {self.python} ended with {status}:\n{end}")
        return json.loads(line)
