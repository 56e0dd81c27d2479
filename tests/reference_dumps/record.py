"""Record programs with the msprobe that this python imports: ours, or the reference.

    python tests/reference_dumps/record.py JOBS.json

The file holds a list of jobs, each an object with the fields of ``Job``. Each job runs in processes of its own, forked
from this one after torch has been imported. The file is also run by the python of the reference, which has no tests.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

if __name__ == "__main__":
    from programs import PROGRAMS
else:
    from tests.reference_dumps.programs import PROGRAMS

STEPS = 2
SUMMARIES = ("md5", "xor")
"""Tasks that are a summary mode of the statistics."""


class Job(NamedTuple):
    """One recording: what is run, how it is recorded, and where."""

    folder: str
    program: str
    fault: str = ""
    level: str = "mix"
    task: str = "statistics"
    ranks: int = 1

    @property
    def name(self) -> str:
        """The name of the recording."""
        return "-".join((self.program, self.fault or "clean", self.level, self.task, str(self.ranks)))


def run(job: Job, rank: int | None = None) -> None:
    """Run and record the program of a job in this process, as one of its ranks."""
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(0)
    model, optimizer, loss, micro_batches, clip = PROGRAMS[job.program](job.fault)
    if job.fault == "weight":
        _plant_weight(model)
    trained = model if rank is None else nn.parallel.DistributedDataParallel(model)
    debugger = PrecisionDebugger(str(_configuration(job, rank)))
    for step in range(STEPS):
        debugger.start(model=trained)
        for micro_batch in range(micro_batches):
            value = loss(trained, step + micro_batch + 2 * (rank or 0))
            if job.level == "debug":
                debugger.save(value, "loss", save_backward=True)
            value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


def _configuration(job: Job, rank: int | None) -> Path:
    task = "statistics" if job.task in SUMMARIES else job.task
    config = {"task": task, "level": job.level, "dump_path": job.folder, "rank": [], "step": []}
    if job.task in SUMMARIES:
        config["statistics"] = {"summary_mode": job.task}
    path = Path(job.folder) / f"config{rank or 0}.json"
    path.write_text(json.dumps(config))
    return path


def _plant_weight(model: nn.Module) -> None:
    """Change one weight in the middle of the model."""
    names = [name for name, parameter in model.named_parameters() if parameter.ndim > 1]
    with torch.no_grad():
        model.get_parameter(names[len(names) // 2]).view(-1)[1] += 0.2


def record(job: Job) -> bool:
    """Record a job in processes of its own; return whether all of them ended well."""
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    ranks = [None] if job.ranks == 1 else list(range(job.ranks))
    with tempfile.TemporaryDirectory() as meeting:
        children = [_forked(job, rank, f"{meeting}/meeting") for rank in ranks]
        statuses = [os.waitpid(child, 0)[1] for child in children]
    return not any(statuses)


def _forked(job: Job, rank: int | None, meeting: str) -> int:
    """Start a process for one rank, and return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _run_alone(job, rank, meeting)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        _end(status)
    return 0


def _end(status: int) -> None:
    """End a forked process as an interpreter ends."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_alone(job: Job, rank: int | None, meeting: str) -> None:
    with open(Path(job.folder) / f"log{rank or 0}.txt", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    torch.set_num_threads(1)
    if rank is not None:
        torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=job.ranks)
    run(job, rank)
    if rank is not None:
        torch.distributed.destroy_process_group()


def main() -> None:
    """Record all jobs of a file, and print the folders of those that failed."""
    import msprobe.pytorch  # noqa: F401 - imported once, for all jobs

    jobs = [Job(**fields) for fields in json.loads(Path(sys.argv[1]).read_text())]
    failed = [job.folder for job in jobs if not record(job)]
    print("\n".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
