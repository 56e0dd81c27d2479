"""Writes a merged dump as files (``--file_type json``) that can be read like any other dump."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException
from msprobe.core.store.atomic import make_folder, write_atomic
from msprobe.core.store.layout import CONSTRUCT, DUMP, STACK, process_folder, step_folder
from msprobe.core.store.reader import Dump


def export_dump(output: Path, dump: Dump, step: int, rank: int) -> Path:
    """Write a dump to ``step{S}/rank{R}`` below ``output`` and return that folder.

    Raises:
        MsprobeException: the folder cannot be written.
    """
    folder = process_folder(step_folder(output, step), rank, os.getpid())
    header = {"task": dump.task, "level": dump.level, "framework": dump.framework}
    document = {**header, "is_merged": True, "dump_data_dir": None, "data": dump.data}
    by_frames: dict[tuple[str, ...], list[str]] = {}
    for name, frames in dump.stacks.items():
        by_frames.setdefault(tuple(frames), []).append(name)
    stacks = {str(number): [names, list(frames)] for number, (frames, names) in enumerate(by_frames.items())}
    try:
        make_folder(folder)
        for name, content in ((STACK, stacks), (CONSTRUCT, dump.construct), (DUMP, document)):
            write_atomic(folder / name, [_json_bytes(content)])
    except OSError as error:
        text = f"the merged dump cannot be written to {folder} ({error.strerror}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text) from error
    return folder


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
