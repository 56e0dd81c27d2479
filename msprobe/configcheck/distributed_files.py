"""Checkpoints of ``torch.distributed.checkpoint``, which are not read: the message says how to convert one."""

from __future__ import annotations

from pathlib import Path

_SUFFIX = ".distcp"


def distributed_refusal(folder: Path) -> str:
    """Return the message for a folder with such files; an empty text for any other folder."""
    if not any(child.suffix == _SUFFIX for child in folder.iterdir()):
        return ""
    return (
        f"{folder}: a distributed checkpoint ({_SUFFIX}), which is not read; make one file of it: "
        f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} FILE.pt"
    )
