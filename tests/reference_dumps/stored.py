"""Recordings of the reference that are kept with the tests, as CI has no reference.

    python -m tests.reference_dumps.stored PYTHON_OF_THE_REFERENCE

records them again. A file holds one recording: by step and rank its dump.json and construct.json.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.reference_dumps.record import Job

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "stored"
DOCUMENTS = ("dump.json", "construct.json")
CLEAN = (
    *(Job("", "mlp", level=level) for level in ("L0", "L1", "mix")),
    *(Job("", program) for program in ("cnn", "odd", "half", "lstm", "transformer", "checkpointed")),
    *(Job("", program, level="L1") for program in ("reentrant", "checkpointed")),
    Job("", "accumulated", level="L0"),
    Job("", "mlp", ranks=2),
)
"""Correct programs. Checksums and whole tensors are left to the matrix: they depend on the processor."""
FAULTY = (
    *(Job("", "mlp", fault) for fault in ("weight", "operation", "argument", "detached", "lr")),
    Job("", "cnn", "eps", "L0"),
    Job("", "transformer", "mask"),
    Job("", "checkpointed", "weight", "L1"),
    Job("", "half", "weight", "L1"),
    Job("", "half", "lr", "L0"),
)


def record_with(python: str, jobs: list[Job], environment: dict[str, str] | None = None) -> None:
    """Record jobs with the msprobe of another python; a job that fails raises."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.json"
        path.write_text(json.dumps([job._asdict() for job in jobs]))
        command = [python, str(HERE / "record.py"), str(path)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def unpack(job: Job, folder: Path) -> Path:
    """Write a stored recording into a folder, and return it."""
    with gzip.open(FOLDER / f"{job.name}.json.gz", "rt", encoding="utf-8") as file:
        recording = json.load(file)
    for place, documents in recording.items():
        (folder / place).mkdir(parents=True)
        for name, document in documents.items():
            (folder / place / name).write_text(json.dumps(document), encoding="utf-8")
    return folder


def _pack(job: Job) -> None:
    processes = sorted(path for path in Path(job.folder).glob("step*/*") if path.is_dir())
    recording = {
        re.sub("proc[0-9]+$", "proc1", f"{path.parent.name}/{path.name}"): {
            name: json.loads((path / name).read_text()) for name in DOCUMENTS
        }
        for path in processes
    }
    text = json.dumps(recording, separators=(",", ":"))
    (FOLDER / f"{job.name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    """Record all of them with the python given, and store them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        jobs = [job._replace(folder=f"{root}/{job.name}") for job in (*CLEAN, *FAULTY)]
        record_with(sys.argv[1], jobs)
        for job in jobs:
            _pack(job)


if __name__ == "__main__":
    main()
