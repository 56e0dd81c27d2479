"""Paths in a dump, and file names that are safe for any recorded name.

{dump_path}/step{N}/{rank{R} | rank{R}_{pid} | proc{pid}}/dump.json
                                          stack.json
                                          construct.json
                                          source.json
                                          dump_tensor_data/{entry}.{slot}.{path}.pt
                                          dump.journal          only while collecting, or after a crash
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

DUMP = "dump.json"
DEBUG = "debug.json"
STACK = "stack.json"
CONSTRUCT = "construct.json"
SOURCE = "source.json"
DOCUMENTS = (DUMP, DEBUG, STACK, CONSTRUCT, SOURCE)
JOURNAL = "dump.journal"
TENSORS = "dump_tensor_data"
ERRORS = "dump_error_info.log"

_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")
_LONGEST = 255


def step_folder(root: Path, step: int) -> Path:
    """Return the folder of a step below the dump_path."""
    return root.joinpath(f"step{step}")


def process_folder(step: Path, rank: int | None, pid: int, *, shared: bool = False) -> Path:
    """Return the folder of one process in a step: by rank where one is known, else by process id.

    A rank that is ``shared`` with another process gets the process id as well.
    """
    if rank is None:
        return step.joinpath(f"proc{pid}")
    return step.joinpath(f"rank{rank}_{pid}" if shared else f"rank{rank}")


def root_of(process: Path) -> Path:
    """Return the dump_path of a process folder."""
    return process.parent.parent


def file_name(tensor: str, suffix: str) -> str:
    """Return the file name of the tensor ``tensor`` (``Torch.max.0.forward.output.1``), safe for any text in it.

    Separators and control characters become ``_``. A name beyond the 255 bytes of common file systems keeps its head
    and gets a digest, so that two long names stay different.
    """
    if tensor.isascii() and len(tensor) + len(suffix) <= _LONGEST and _UNSAFE.search(tensor) is None:
        return tensor + suffix
    name = _UNSAFE.sub("_", tensor)
    encoded = name.encode("utf-8", "backslashreplace")
    if encoded == tensor.encode("utf-8", "surrogatepass") and len(encoded) + len(suffix) <= _LONGEST:
        return tensor + suffix
    digest = hashlib.sha256(tensor.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    head = encoded[: _LONGEST - len(suffix) - len(digest) - 1].decode("utf-8", "ignore")
    return f"{head}.{digest}{suffix}"
