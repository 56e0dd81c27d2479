"""Which part of which recorded tensor a process is fed: the document ``inputs.json`` of ``msprobe split_inputs``.

    {"Module.fc.Linear.forward.0.input.0": {"file": "../../good/fc.pt", "ranges": [[1, [[4, 8]]]]}}

Each key is a tensor argument of a call. The file is relative to the folder of the document; ``ranges`` has an axis and
the ranges of it that belong to the process, for each axis that is cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.interruption import let_through
from msprobe.core.repeated_keys import parsed
from msprobe.core.store.layout import root_of
from msprobe.core.store.safe_files import make_folder_below, write_atomic
from msprobe.core.tensors.input_parts import InputPart

PLAN = "inputs.json"


def write_plan(parts: Mapping[str, InputPart], folder: Path) -> Path:
    """Write the plan of one process into its folder, and return the document."""
    make_folder_below(root_of(folder), folder)
    content = {
        name: {"file": os.path.relpath(part.file, folder), "ranges": part.ranges} for name, part in parts.items()
    }
    write_atomic(folder.joinpath(PLAN), [json.dumps(content, indent=1).encode("utf-8", "backslashreplace"), b"\n"])
    return folder.joinpath(PLAN)


def read_plan(folder: Path) -> dict[str, InputPart] | None:
    """Return the plan in the folder of a process; None where there is none.

    Raises:
        ReadError: the document is damaged.
    """
    document = folder.joinpath(PLAN)
    if not document.is_file():
        return None
    try:
        content = parsed(document.read_bytes())
        return {name: _part(item, folder) for name, item in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        let_through(error)
        raise ReadError(f"{document} is no plan of inputs ({type(error).__name__}); run split_inputs again") from error


def _part(item: Mapping[str, Any], folder: Path) -> InputPart:
    ranges = tuple(
        (int(axis), tuple((int(begin), int(end)) for begin, end in pieces)) for axis, pieces in item["ranges"]
    )
    return InputPart(folder.joinpath(str(item["file"])), ranges)
