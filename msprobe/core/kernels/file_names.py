"""Parse the names of files of a kernel dump, as MindSpore's runtime writes them:

    MatMul.Default_fc1-Dense_MatMul-op0.0.0.1795238291770896.output.0.DefaultFormat.Float32.npy
    {type}.{name, every / . and blank as _}.{task}.{stream}.{time in us}.{input|output}.{slot}.{format}[.{dtype}].npy

A name that is too long for the file system is replaced by a number, and ``mapping.csv`` beside it has the full name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(
    r"(?P<op>[^.]+)\.(?P<name>.+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d+)"
    r"\.(?P<side>input|output)\.(?P<slot>\d+)\.(?P<format>[A-Za-z]\w*)(?:\.(?P<dtype>\w+))?\Z"
)
_FLAT = re.compile(r"[/\\.: ]")
PARAMETER = "Parameter"
"""The operator type that the runtime gives to the inputs of a graph."""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """One tensor of one kernel. ``name`` is flat (see ``flat``), ``time`` in microseconds, ``dtype`` "" if not said."""

    path: Path
    op: str
    name: str
    task: int
    stream: int
    time: int
    side: str
    slot: int
    dtype: str


def parse_file(path: Path, mapping: Mapping[str, str] | None = None) -> KernelFile | None:
    """Parse the name of ``path``; return None when it is no .npy file of a kernel dump.

    Args:
        path: the file.
        mapping: the result of ``read_mapping`` for its folder.
    """
    if path.suffix != ".npy":
        return None
    stem = path.name[: -len(path.suffix)]
    match = _NAME.match((mapping or {}).get(path.name) or (mapping or {}).get(stem) or stem)
    if match is None:
        return None
    return KernelFile(
        path,
        match["op"],
        match["name"],
        int(match["task"]),
        int(match["stream"]),
        int(match["time"]),
        match["side"],
        int(match["slot"]),
        match["dtype"] or "",
    )


def read_mapping(folder: Path) -> dict[str, str]:
    """Return ``mapping.csv`` of ``folder``: full names by short names, without ``.npy``; empty when there is none."""
    path = folder / "mapping.csv"
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = [row for row in csv.reader(file) if len(row) >= 2]
    return {short.strip(): full.strip().removesuffix(".npy") for short, full, *_ in rows}


def flat(name: str) -> str:
    """Return a kernel's full name as it is written in a file name."""
    return _FLAT.sub("_", name)
