"""Parse the file names of a kernel dump, and match the names in files with the kernels of the graph.

MindSpore's runtime writes these names:

    MatMul.Default_fc1-Dense_MatMul-op0.0.0.1795238291770896.output.0.DefaultFormat.Float32.npy
    {type}.{name, every / . and blank as _}.{task}.{stream}.{time in us}.{input|output}.{slot}.{format}[.{dtype}].npy

A name that is too long for the file system is replaced by a number, and ``mapping.csv`` beside it has the full name.

Names are looked up as a whole, in a dictionary, and never by substring, so ``op1`` is not ``op10``. In a function that
``jit`` compiled under a gradient the files have ``MatMul-op1`` where the graph has ``MatMul-op2``. There, kernels of
one scope and type are matched by their order, provided that there are as many on both sides.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.core.errors import ReadError

_NAME = re.compile(
    r"(?P<op>[^.]+)\.(?P<name>.+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d+)"
    r"\.(?P<side>input|output)\.(?P<slot>\d+)\.(?P<format>[A-Za-z]\w*)(?:\.(?P<dtype>\w+))?\Z"
)
_FLAT = re.compile(r"[/\\.: ]")
_NUMBERED = re.compile(r"(?P<stem>.*)-op(?P<number>\d+)\Z", re.DOTALL)
_GENERATED = re.compile(r"Parameter_\d+\Z")
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
    """Return ``mapping.csv`` of ``folder``: full names by short names, without ``.npy``; empty when there is none.

    Raises:
        ReadError: it is no table.
    """
    path = folder / "mapping.csv"
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = [row for row in csv.reader(file) if len(row) >= 2]
    except csv.Error as error:
        raise ReadError(f"{path}: not a table ({error})") from error
    return {short.strip(): full.strip().removesuffix(".npy") for short, full, *_ in rows}


def flat(name: str) -> str:
    """Return a kernel's full name as it is written in a file name."""
    return _FLAT.sub("_", name)


def resolve(flat_names: Iterable[str], full_names: Iterable[str]) -> dict[str, str]:
    """Return full names (``Default/fc1-Dense/MatMul-op0``) by the flat names of files that have a match.

    Two full names with the same flat name match nothing: a wrong source line is worse than none.
    """
    by_flat: dict[str, set[str]] = {}
    for name in full_names:
        by_flat.setdefault(flat(name), set()).add(name)
    wanted = set(flat_names)
    result = {name: next(iter(by_flat[name])) for name in wanted if len(by_flat.get(name, ())) == 1}
    unused = {name: next(iter(full)) for name, full in by_flat.items() if len(full) == 1 and name not in result}
    in_files, in_graph = _by_stem(wanted - set(by_flat)), _by_stem(unused)
    for stem, names in in_files.items():
        others = in_graph.get(stem, [])
        if len(others) == len(names):
            result.update(zip(names, (unused[other] for other in others), strict=True))
    return result


def _by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names by their part before the number; the names of a group are ordered by number."""
    grouped: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if numbered := _NUMBERED.match(name):
            grouped.setdefault(numbered["stem"], []).append((int(numbered["number"]), name))
    return {stem: [name for _, name in sorted(group)] for stem, group in grouped.items()}


def graph_inputs(positions: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the name and the position of a graph's inputs by flat name.

    An input that the compiler numbered itself (``Parameter_30``) is named by its position, which is stable.
    """
    return {
        flat(name): (f"input_{position}" if _GENERATED.match(name) else name, position)
        for name, position in positions.items()
    }


def entry_stem(full_name: str, op: str) -> tuple[str, str]:
    """Return the name and the phase of a kernel's record: ``Kernel.Default.fc1-Dense.MatMul`` and ``forward``.

    The number after ``-op`` counts compilations, so it is left out; the call number distinguishes equal kernels.
    """
    parts = [part for part in full_name.split("/") if part] or [op]
    numbered = _NUMBERED.match(parts[-1])
    if numbered:
        parts[-1] = numbered["stem"] or op
    phase = "backward" if parts[0] == "Gradients" and len(parts) > 1 else "forward"
    return ".".join(["Kernel", *(parts[1:] if phase == "backward" else parts)]), phase
