"""Jobs of several real ranks on gloo whose graphs are drawn; the dump lies in ``folder / "dump"``."""

from __future__ import annotations

from pathlib import Path

from tests.ranks import run_ranks

RANKS = {"single": 1, "tp": 2, "pp": 2}


def record_communication(folder: Path) -> None:
    """Record two ranks that send, receive and take part in collectives."""
    run_ranks("tests.visualize.communicating_job", 2, lambda rank: (rank, folder))


def record_parallel(folder: Path, mode: str) -> None:
    """Record the training of a small model on the ranks of ``mode``, a key of ``RANKS``."""
    run_ranks("tests.visualize.parallel_job", RANKS[mode], lambda rank: (mode, rank, folder))
