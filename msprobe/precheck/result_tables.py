"""The two tables of the accuracy pre-check: a line per call, and a line per result.

A line is written when its call is judged, details first, so that after a kill every call of the result table is
complete, and ``-csv_path`` goes on behind it. Documented format: UTF-8 with a byte order mark, a blank cell is a space.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msprobe.core.errors import InterfaceError, ReadError, error_text
from msprobe.core.store.safe_files import create_new, make_folder, open_private
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status, figures, worse
from msprobe.report.csv_table import safe_cell

RESULT_COLUMNS = ("API name", "Forward Test Success", "Backward Test Success", "Message")
DETAIL_COLUMNS = (
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape",
    "余弦相似度", "最大绝对误差", "双百指标", "双千指标", "双万指标", "二进制一致错误率", "误差均衡性", "均方根误差",
    "小值域错误占比", "相对误差最大值", "相对误差平均值", "inf/nan错误率", "相对误差错误率", "绝对误差错误率",
    "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比",
    "Status", "Message",
)  # fmt: skip
_RESULT, _DETAILS = "accuracy_checking_result_", "accuracy_checking_details_"
_RESULT_NAME = re.compile(_RESULT + r"\d{14}\.csv")
_BLANK, _MARK = " ", "\ufeff"


class ResultTables:
    """Appends calls to both tables.

    Attributes:
        result, details: the files.
        before: the status of each call that the result table had already, by its name; the worse one of both passes.
        stamp: the time in the names of the files.
    """

    def __init__(self, result: Path, digits: int) -> None:
        """Open the tables ``result`` and the one of details beside it; those that do not exist are made."""
        self.result = result
        self.details = result.with_name(result.name.replace(_RESULT, _DETAILS))
        self.stamp = result.stem.removeprefix(_RESULT)
        self._digits = digits
        lines = statuses_in(result) if result.exists() else ()
        self.before = {name: worse(forward, backward) for name, forward, backward, _ in lines}
        for path, columns in ((self.details, DETAIL_COLUMNS), (self.result, RESULT_COLUMNS)):
            if not path.exists():
                _create(path, columns)
            else:
                _end_line(path)

    def add(self, call: CheckedCall) -> None:
        """Append the lines of a call.

        Raises:
            OSError: a file cannot be written.
        """
        lines = [self._details_of(value) for value in call.values]
        if lines:
            _append(self.details, lines)
        _append(self.result, [(call.name, str(call.forward), str(call.backward), call.message or _BLANK)])

    def _details_of(self, value: CheckedValue) -> tuple[str, ...]:
        dtypes = (_dtype_text(value.golden_dtype), _dtype_text(value.dtype))
        shape = str(list(value.shape)) if value.dtype else _BLANK
        numbers = (_BLANK if number is None else f"{number:.{self._digits}g}" for number in figures(value.metrics))
        return (value.name, *dtypes, shape, *numbers, str(value.status), value.message or _BLANK)


def new_tables(folder: Path, digits: int, make: Callable[[], datetime] = datetime.now) -> ResultTables:
    """Return tables with the time of now in their names.

    Raises:
        OSError: they cannot be made.
    """
    make_folder(folder)
    return ResultTables(folder / f"{_RESULT}{make():%Y%m%d%H%M%S}.csv", digits)


def resumed_tables(result: Path, digits: int) -> ResultTables:
    """Return the tables of an earlier run, to go on with.

    Raises:
        InterfaceError: the file is no result table.
    """
    if _RESULT_NAME.fullmatch(result.name) is None:
        raise InterfaceError(
            f"-csv_path {result}: the name must be {_RESULT}YYYYMMDDHHMMSS.csv; give the result table of an earlier run"
        )
    if not result.is_file():
        raise InterfaceError(f"-csv_path {result}: there is no such file")
    return ResultTables(result, digits)


def statuses_in(result: Path) -> Iterator[tuple[str, Status, Status, str]]:
    """Yield name, both statuses and message of each call of a result table.

    Raises:
        ReadError: the file is no result table.
    """
    for line in _lines(result):
        try:
            yield line[0], Status(line[1].strip()), Status(line[2].strip()), line[3].strip()
        except (ValueError, IndexError) as error:
            raise ReadError(f"{result}: the line of {line[0]!r:.80} has no status of both passes") from error


def _lines(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            head = next(reader, None)
            if head is None or tuple(head) != RESULT_COLUMNS:
                raise ReadError(f"{path}: no result table, its first line is not {','.join(RESULT_COLUMNS)}")
            yield from (line for line in reader if len(line) == len(RESULT_COLUMNS))
    except (OSError, UnicodeError, csv.Error) as error:
        raise ReadError(f"{path}: cannot be read: {error_text(error)}") from error


def _create(path: Path, columns: Sequence[str]) -> None:
    os.close(create_new(path))
    _append(path, [columns], mark=_MARK)


def _append(path: Path, lines: Sequence[Sequence[str]], mark: str = "") -> None:
    """Write whole lines by one call of the system, so that a kill leaves none in part."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[str(safe_cell(cell)) for cell in line] for line in lines])
    descriptor = open_private(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, (mark + text.getvalue()).encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)


def _end_line(path: Path) -> None:
    """End the last line of a table whose writer was killed on a full disk."""
    with path.open("rb+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _dtype_text(dtype: str) -> str:
    return f"torch.{dtype}" if dtype else _BLANK
