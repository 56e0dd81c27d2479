"""Checkpoints of ``torch.distributed.checkpoint``, which are not read, and what to do with one."""

from __future__ import annotations

from pathlib import Path

_SUFFIX = ".distcp"


def refused(folder: Path) -> str:
    """What to tell of a folder of such files; nothing of any other."""
    if not any(child.suffix == _SUFFIX for child in folder.iterdir()):
        return ""
    return (
        f"{folder}: a distributed checkpoint ({_SUFFIX}), which is not read; make one file of it: "
        f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} FILE.pt"
    )
