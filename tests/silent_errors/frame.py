"""What every program of the test bed shares: its arguments, the debugger that records it, and the job of its ranks.

    python tests/silent_errors/programs/NAME.py --out FOLDER [--fault]

A rank of a job also gets RANK, WORLD_SIZE and RENDEZVOUS (a file that the ranks share) in its environment.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from msprobe.pytorch import PrecisionDebugger


@dataclass(frozen=True)
class Options:
    """The folder for the dump, whether the fault is planted, and for files with several programs which one runs."""

    out: str
    fault: bool
    name: str = ""


def options() -> Options:
    """Read the command line, and make the run repeatable on one thread."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--out", required=True)
    parser.add_argument("--fault", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1234)
    return Options(given.out, given.fault, given.name)


def settings(given: Options, **keys: object) -> dict[str, object]:
    """Return a plain configuration: statistics at level mix."""
    return {"task": "statistics", "level": "mix", "dump_path": given.out, **keys}


def debugger(given: Options, **keys: object) -> PrecisionDebugger:
    """Return the debugger of the program."""
    return PrecisionDebugger(settings(given, **keys))


@contextmanager
def recorded(probe: PrecisionDebugger, model: object = None) -> Iterator[None]:
    """Record what happens inside as one step."""
    probe.start(model)
    yield
    probe.stop()
    probe.step()


@contextmanager
def job() -> Iterator[tuple[int, int]]:
    """Join the ranks of this job over gloo; yields the rank and their number."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{os.environ['RENDEZVOUS']}", rank=rank, world_size=size)
    yield rank, size
    dist.barrier()
    dist.destroy_process_group()
