"""Where things lie in a dump: pure path functions, and the check that a recorded name stays inside its folder.

{dump_path}/step{N}/{rank{R} | rank{R}_{pid} | proc{pid}}/dump.json
                                          stack.json
                                          construct.json
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
JOURNAL = "dump.journal"
TENSORS = "dump_tensor_data"
ERRORS = "dump_error_info.log"

_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")
_LONGEST = 255


def step_folder(root: Path, step: int) -> Path:
    return root / f"step{step}"


def process_folder(step: Path, rank: int | None, pid: int, *, shared: bool = False) -> Path:
    """The folder of one process in a step: by rank where one is known, else by process id.

    A rank that is ``shared`` with another process gets the process id as well.
    """
    if rank is None:
        return step / f"proc{pid}"
    return step / (f"rank{rank}_{pid}" if shared else f"rank{rank}")


def root_of(process: Path) -> Path:
    """The dump_path of a process folder."""
    return process.parent.parent


def file_name(place: str, suffix: str) -> str:
    """The file of the tensor at ``place`` (``Torch.max.0.forward.output.1``), safe for any user text inside it.

    Separators and control characters become ``_``. A name beyond the 255 bytes of common file systems keeps its head
    and gets a digest, so that two long names stay apart.
    """
    name = _UNSAFE.sub("_", place)
    encoded = name.encode("utf-8", "backslashreplace")
    if encoded == place.encode("utf-8", "surrogatepass") and len(encoded) + len(suffix) <= _LONGEST:
        return place + suffix
    digest = hashlib.sha256(place.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    head = encoded[: _LONGEST - len(suffix) - len(digest) - 1].decode("utf-8", "ignore")
    return f"{head}.{digest}{suffix}"
