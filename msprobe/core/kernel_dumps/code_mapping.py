"""Map kernels to the lines of Python code that they come from.

The result is the table ``code_mapping_{time}.csv``, and two columns in each statistic.csv. Kernels are matched graph by
graph, because functions under ``jit`` use the same names in several graphs.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.dump_folder import STATISTIC
from msprobe.core.kernel_dumps.graph_ir import Ir, read_ir, with_forward_lines
from msprobe.core.kernel_dumps.kernel_names import PARAMETER, KernelFile, flat, parse_file, read_mapping, resolve
from msprobe.core.store.safe_files import make_folder, regular, write_atomic

HEADER = ("File Path", "Code Stack", "Scope Name")
_GRAPH_FILE = re.compile(r"graph_(\d+)\.ir\Z")
_ANY_GRAPH = ""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The files that ``map_code`` wrote.

    Args:
        table: the table of tensor files; None when there are none.
        statistics: the statistic.csv files that got the columns.
        matched: how many tensors have a source line.
        seen: how many tensors there are, without inputs of graphs, which have no source line.
    """

    table: Path | None
    statistics: tuple[Path, ...]
    matched: int
    seen: int


@dataclass(frozen=True, slots=True)
class _CodePlace:
    """The values of the columns ``Code Stack`` and ``Scope Name`` of one kernel."""

    stack: str = ""
    scope: str = ""


_UNKNOWN_PLACE = _CodePlace()


def map_code(ir: Path, data: Path, output: Path) -> Mapped:
    """Map the tensor files and ``statistic.csv`` files at or below ``data`` to source lines.

    Args:
        ir: a printed graph, or the folder ``graphs`` of a kernel dump with one for each graph.
        data: a folder of a kernel dump (any level of it), or one statistic.csv.
        output: the folder of the table; it is made when there is a tensor file.

    Returns:
        What was written, and how many tensors were matched.

    Raises:
        ReadError: an input does not exist, or there is nothing in it to map.
    """
    graphs = _graphs(ir)
    tables = [data] if data.is_file() else sorted(data.rglob(STATISTIC))
    folders = [] if data.is_file() else sorted({path.parent for path in data.rglob("*.npy")})
    files = [file for folder in folders for file in _files(folder)]
    if not files and not tables:
        fault = f"no .npy file of a kernel and no {STATISTIC} in it" if data.exists() else "no such file or folder"
        raise ReadError(f"{data}: {fault}; give a folder of a kernel dump")
    rows: list[tuple[str, str, str]] = []
    places = _places_by_folder(files, graphs)
    for file in files:
        place = places[file.path.parent].get((file.op, file.name), _UNKNOWN_PLACE)
        rows.append((str(file.path), place.stack, place.scope))
    counted = [(bool(row[1]), file.op) for row, file in zip(rows, files, strict=True)]
    for table in tables:
        counted += _extend(table, graphs)
    relevant = [matched for matched, op in counted if op != PARAMETER]
    return Mapped(_write(output, rows) if rows else None, tuple(tables), sum(relevant), len(relevant))


def _graphs(path: Path) -> dict[str, Ir]:
    """Return the printed graphs by the number in their file names; "" for a graph that is used for all."""
    if not path.is_dir():
        match = _GRAPH_FILE.search(path.name)
        return {match[1] if match else _ANY_GRAPH: read_ir(path)}
    numbered = {
        match[1]: read_ir(file) for file in sorted(path.glob("*.ir")) if (match := _GRAPH_FILE.search(file.name))
    }
    if not numbered:
        raise ReadError(
            f"{path}: no printed graph in it; give the folder with files like ms_output_trace_code_graph_0.ir"
        )
    return dict(zip(numbered, with_forward_lines(numbered.values()), strict=True))


def _files(folder: Path) -> list[KernelFile]:
    mapping = read_mapping(folder)
    parsed = (parse_file(path, mapping) for path in sorted(folder.glob("*.npy")))
    return sorted((file for file in parsed if file is not None), key=lambda file: file.time)


def _places_by_folder(
    files: Iterable[KernelFile], graphs: Mapping[str, Ir]
) -> dict[Path, dict[tuple[str, str], _CodePlace]]:
    by_folder: dict[Path, set[tuple[str, str]]] = {}
    for file in files:
        by_folder.setdefault(file.path.parent, set()).add((file.op, file.name))
    return {folder: _places(folder, kernels, graphs) for folder, kernels in by_folder.items()}


def _places(
    folder: Path, kernels: Iterable[tuple[str, str]], graphs: Mapping[str, Ir]
) -> dict[tuple[str, str], _CodePlace]:
    """Return the code of the kernels (type, flat name) in the folder of one iteration."""
    ir = graphs.get(folder.parent.name if folder.name.isdigit() else _ANY_GRAPH) or graphs.get(_ANY_GRAPH)
    if ir is None and not folder.parent.name.isdigit() and len(graphs) == 1:
        ir = next(iter(graphs.values()))  # the files were moved out of the folder of their graph
    if ir is None:
        return {}
    wanted = {(op, name) for op, name in kernels if op != PARAMETER}
    full = resolve({name for _, name in wanted}, (node.name for node in ir.nodes))
    places = {node.name: _CodePlace("\n".join(node.lines), node.name) for node in ir.nodes}
    return {(op, name): places[full[name]] for op, name in wanted if name in full}


def _extend(table: Path, graphs: Mapping[str, Ir]) -> list[tuple[bool, str]]:
    """Write the two columns into a statistic.csv, in place of those of an earlier run; nothing else is changed.

    Returns for each row whether it has a source line, and its operator type.
    """
    try:
        rows = list(csv.reader(io.StringIO(regular(table).read_text("utf-8"), newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReadError(f"{table}: cannot be read ({error})") from error
    if not rows or not {"Op Type", "Op Name"} <= set(rows[0]):
        raise ReadError(f"{table}: no {STATISTIC}, its columns Op Type and Op Name are missing")
    header = [title for title in rows[0] if title not in HEADER[1:]]
    op, name = rows[0].index("Op Type"), rows[0].index("Op Name")
    kept = [index for index, title in enumerate(rows[0]) if title in header]
    body = [row for row in rows[1:] if len(row) == len(rows[0])]
    places = _places(table.parent, {(row[op], flat(row[name])) for row in body}, graphs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*header, *HEADER[1:]])
    counted = []
    for row in body:
        place = places.get((row[op], flat(row[name])), _UNKNOWN_PLACE)
        writer.writerow([*(row[index] for index in kept), place.stack, place.scope])
        counted.append((bool(place.stack), row[op]))
    write_atomic(table, [text.getvalue().encode()])
    return counted


def _write(output: Path, rows: Iterable[tuple[str, str, str]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(rows)
    make_folder(output)
    path = output / f"code_mapping_{time.strftime('%Y%m%d%H%M%S')}.csv"
    write_atomic(path, [text.getvalue().encode()])
    return path
