"""Finds what ``SingleSave`` wrote: ``data/NAME/step0/rank0/micro_step0/NAME[.key].npy``, and its facts in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.errors import FileCheckException
from msprobe.core.store.safe_files import regular
from msprobe.core.store.tensor_reader import DAMAGED_HEADER, read_tensor

_FILE = re.compile(r"step(\d+)/rank(\d+)/micro_step(\d+)/([^/]+)\.npy\Z")

SaveKey = tuple[int, int, int, str]
"""Step, rank, micro step and id of a saved value."""


@dataclass(frozen=True, slots=True)
class SavedValue:
    """One file, and the type that the value had where numpy lacks it (``bfloat16``); empty for all others."""

    path: Path
    dtype: str = ""

    def read(self) -> Any:
        """Return the elements.

        Raises:
            ReadError: the file is damaged.
        """
        return read_tensor(self.path)

    def shape(self) -> tuple[int, ...] | None:
        """Return the shape; None where the file is damaged."""
        try:
            return tuple(np.load(regular(self.path), mmap_mode="r", allow_pickle=False).shape)
        except (OSError, AttributeError, *DAMAGED_HEADER):  # the last for an archive of arrays
            return None


Values = dict[str, dict[SaveKey, SavedValue]]
"""Saved values by name, then by key."""


def order_of(key: SaveKey) -> tuple[Any, ...]:
    """Return the sort key of a value. Numbers in its id count as numbers: ``2`` comes before ``10``."""
    return (key[0], key[2], key[1], list(_id_parts(key[3])))


def _id_parts(text: str) -> Iterator[tuple[int, int, str]]:
    for part in text.split("."):
        yield (0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part)


def holds_saved_values(folder: Path) -> bool:
    """Return whether a folder holds what SingleSave wrote."""
    return any(folder.glob("data/*/step*/rank*/micro_step*"))


def find_values(folder: Path) -> Values:
    """Return the saved values by name, then by key.

    Raises:
        FileCheckException: there are none.
    """
    values: Values = {}
    types: dict[Path, dict[str, str]] = {}
    for path in folder.glob("data/*/step*/rank*/micro_step*/*.npy"):
        name = path.parents[3].name
        match = _FILE.search(path.as_posix())
        if match is None:
            continue
        if path.parent not in types:
            types[path.parent] = _types(path.parent / f"{name}.json")
        step, rank, micro, stem = match.groups()
        key = stem.removeprefix(name).removeprefix(".") or "0"
        dtype = types[path.parent].get(path.name, types[path.parent].get("", ""))
        values.setdefault(name, {})[int(step), int(rank), int(micro), key] = SavedValue(path, dtype)
    if not values:
        raise FileCheckException(
            FileCheckException.ILLEGAL_PATH_ERROR,
            f"{folder}: nothing that SingleSave wrote (data/NAME/step0/...) is there",
        )
    return values


def _types(path: Path) -> dict[str, str]:
    """Return the types that numpy lacks, by file name; of the only value of a name by an empty text."""
    try:
        data = json.loads(regular(path).read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    entries = data if isinstance(data, list) else [data]
    known = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("dtype"), str)]
    return {str(entry.get("file", "")): entry["dtype"] for entry in known}
