"""Which item was compared with which, as a YAML file that ``-dm`` takes: edit it and compare again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from msprobe.compare.cells import item_names
from msprobe.compare.table import LeafTable
from msprobe.core.store.atomic import write_atomic

_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z|N/A\Z", re.ASCII)


def write_data_mapping(folder: Path, stem: str, table: LeafTable) -> Path:
    """Write ``stem.yaml`` with every item of the target and its golden item, or ``N/A``; returns its path.

    Raises:
        OSError: the file cannot be written.
    """
    path = folder / f"{stem}.yaml"
    write_atomic(path, (f"{_text(ours)}: {_text(theirs)}\n".encode() for ours, theirs in _pairs(table)))
    return path


def _pairs(table: LeafTable) -> Iterator[tuple[str, str]]:
    targets, goldens = item_names(table, 0, len(table.entries))
    return ((ours, theirs) for ours, theirs in zip(targets, goldens, strict=True) if ours != "N/A")


def _text(name: str) -> str:
    """The name as YAML reads it back."""
    return name if _PLAIN.match(name) else json.dumps(name)
