"""Merges the tables of many ranks for ``msprobe merge_result``: one sheet per metric, one column per rank.

    merge_results(Path("out"), Path("merged"), Path("merge.yaml"))    # merged/multi_ranks_compare_merge_{time}.xlsx

The configuration is YAML:

    api: [Distributed.all_reduce, Torch.exp]      # names of calls, whole parts of them anywhere in the name of a row
    compare_index: [Max diff, NormRelativeErr]    # columns; left out or empty: all of the mode

In place of a cell that is no number (``N/A``, ``unsupported``, ``Nan``) stand the largest values of both sides. A cell
is blank where the rank has no such row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.columns import METRICS
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.safe_files import make_folder
from msprobe.core.yaml_file import load_yaml
from msprobe.report.table_reader import read_table
from msprobe.report.xlsx_table import load_library

_FILE = re.compile(r"compare_result_(?P<rank>rank\d+(?:-rank\d+)?)(?P<step>_step\d+)?_(?P<stamp>\d{14})")
_NAME = "NPU Name"
_CONSISTENT = "Requires_grad Consistent"
_BLANK = frozenset({"N/A", "unsupported", "Nan"})
_KEYS = ("api", "compare_index")
_GIVE = f"give a YAML file with {' and '.join(_KEYS)}"
Row = Mapping[str, Any]
Sheet = dict[str, dict[str, Any]]
"""Cells by the name of the row, then by rank."""


@dataclass(frozen=True, slots=True)
class MergeConfig:
    """The calls whose rows are merged, and the columns; no ``indexes`` means all columns of the mode."""

    apis: tuple[str, ...]
    indexes: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Return whether a row belongs to one of the calls; only whole parts of a name count."""
        return any(f".{api}." in f".{name}." for api in self.apis)


@dataclass(slots=True)
class Merged:
    """The merged tables: the ranks in order, the sheets by column title, the file, and notes for the user."""

    ranks: list[str]
    sheets: dict[str, Sheet]
    path: Path
    notes: list[str] = field(default_factory=list)


def merge_results(folder: Path, output: Path, config: Path) -> Merged:
    """Merge every ``compare_result_rank*`` table (csv or xlsx) of ``folder`` into a workbook below ``output``.

    Of several tables of a rank, the newest is read.

    Raises:
        ReadError: the configuration or a table cannot be read.
        MsprobeException: there are fewer than two ranks, tables of different modes or of checksums, or the workbook
            cannot be written.
    """
    merge_config = read_config(config)
    notes: list[str] = []
    files = _newest_tables(_find_tables(folder), notes)
    if len(files) < 2:
        ranks = ", ".join(files) or "none"
        raise _merge_error(
            f"{folder}: tables of at least two ranks are needed (compare_result_rank0_...), found {ranks}"
        )
    load_library()  # before the tables are read, which may be large
    sheets: dict[str, Sheet] = {}
    mode: Mode | None = None
    for rank, paths in files.items():
        for path in paths:
            columns, rows = read_table(path)
            table_mode = _mode_of_table(columns, path)
            if mode not in (None, table_mode):
                raise _merge_error(
                    f"{path}: a table of mode {table_mode}, those before are of mode {mode}; compare all ranks alike"
                )
            mode = table_mode
            _add_rows(sheets, merge_config, table_mode, rank, rows)
    ordered = {index: {name: sheet[name] for name in sorted(sheet)} for index, sheet in sheets.items()}
    if not any(ordered.values()):
        raise _merge_error(
            f"{config}: api {', '.join(merge_config.apis)} matches no row of the tables in {folder}; "
            "write names as in their first column"
        )
    path = _write(output, list(files), ordered)
    return Merged(list(files), ordered, path, notes)


def read_config(path: Path) -> MergeConfig:
    """Return the configuration in the YAML file of ``-config``.

    Raises:
        ReadError: the file is missing or no YAML, or a key is unknown or has a wrong value.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror}); {_GIVE}") from error
    except ValueError as error:
        raise ReadError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict):
        raise ReadError(f"{path}: no configuration of merge_result; {_GIVE}")
    unknown = sorted(str(key) for key in content if key not in _KEYS)
    if unknown:
        raise ReadError(f"{path}: unknown key {', '.join(unknown)}; known keys: {', '.join(_KEYS)}")
    apis = _texts(content.get("api"), path, "api")
    if not apis:
        raise ReadError(f"{path}: api lists the calls to merge, for example [Distributed.all_reduce]; it is empty")
    return MergeConfig(apis, _texts(content.get("compare_index"), path, "compare_index"))


def _texts(value: Any, path: Path, key: str) -> tuple[str, ...]:
    """Return the value of a key as texts, each once; raise ReadError where it is no list of texts."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ReadError(f"{path}: {key} must be a list of texts, such as [Torch.add]; got {value!r}")
    return tuple(dict.fromkeys(item.strip() for item in value))


def _find_tables(folder: Path) -> list[tuple[str, str, Path]]:
    """Return column title (rank, and step where there are several), time stamp and path of every result table.

    Parts of one table have the same stamp.
    """
    if not folder.is_dir():
        raise ReadError(f"{folder}: no such folder; give the output folder of msprobe compare")
    tables = []
    for path in sorted(folder.iterdir()):
        match = _FILE.match(path.name)
        if match and path.suffix in (".csv", ".xlsx"):
            tables.append((match["rank"] + (match["step"] or ""), match["stamp"] + path.suffix, path))
    return tables


def _newest_tables(files: Sequence[tuple[str, str, Path]], notes: list[str]) -> dict[str, list[Path]]:
    """Return the files of the newest table of each column title, in numeric order; ``notes`` gets the other tables."""
    tables: dict[str, dict[str, list[Path]]] = {}
    for title, stamp, path in files:
        tables.setdefault(title, {}).setdefault(stamp, []).append(path)
    newest_tables = {}
    for title in sorted(tables, key=lambda title: [int(number) for number in re.findall(r"\d+", title)]):
        *older, newest = sorted(tables[title])
        newest_tables[title] = tables[title][newest]
        notes += [f"older table left out: {path}" for stamp in older for path in tables[title][stamp]]
    return newest_tables


def _mode_of_table(columns: Sequence[str], path: Path) -> Mode:
    modes = [mode for mode, metrics in METRICS.items() if _NAME in columns and set(metrics) <= set(columns)]
    if not modes:
        raise ReadError(f"{path}: not a result table of msprobe compare (title line: {', '.join(columns[:4])}...)")
    if modes[0] is Mode.CHECKSUM:
        raise _merge_error(f"{path}: a table of checksums has no numbers to merge")
    return modes[0]


def _add_rows(sheets: dict[str, Sheet], config: MergeConfig, mode: Mode, rank: str, rows: Sequence[Row]) -> None:
    """Add the rows of one table to the sheets, as the column of its rank."""
    all_indexes = (*METRICS[mode], _CONSISTENT)
    indexes = config.indexes or all_indexes
    selected = [row for row in rows if config.wants(str(row[_NAME])) and row[_NAME] != "N/A"]
    for index in indexes:
        sheet = sheets.setdefault(index, {})
        if rows and index not in rows[0]:
            raise _merge_error(
                f"compare_index: no column {index!r} in tables of mode {mode}; columns: {', '.join(all_indexes)}"
            )
        for row in selected:
            sheet.setdefault(str(row[_NAME]), {})[rank] = _cell(row, index)


def _cell(row: Row, index: str) -> Any:
    value = row[index]
    if value in _BLANK:
        return f"NPU:{row.get('NPU max')}  Bench:{row.get('Bench max')}"
    return value


def _write(output: Path, ranks: Sequence[str], sheets: Mapping[str, Sheet]) -> Path:
    """Write the workbook and return its path."""
    xlsxwriter = load_library()
    path = output / f"multi_ranks_compare_merge_{datetime.now().strftime('%Y%m%d%H%M%S')}.xlsx"
    try:
        make_folder(output)
        with xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False}) as book:
            for index, sheet in sheets.items():
                _fill_sheet(book.add_worksheet(index[:31]), ranks, sheet)
        path.chmod(0o600)
    except (OSError, xlsxwriter.exceptions.FileCreateError) as error:
        raise _merge_error(
            f"the result cannot be written to {output} ({error}); choose another folder with -o"
        ) from error
    return path


def _fill_sheet(page: Any, ranks: Sequence[str], sheet: Sheet) -> None:
    page.write_row(0, 0, [_NAME, *ranks])
    page.freeze_panes(1, 1)
    for line, (name, cells) in enumerate(sheet.items(), 1):
        page.write_string(line, 0, name)
        for column, rank in enumerate(ranks, 1):
            value = cells.get(rank)
            if isinstance(value, float) and not abs(value) < float("inf"):
                value = str(value)
            if value is not None:
                page.write(line, column, value)


def _merge_error(reason: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
