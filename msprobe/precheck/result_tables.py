"""The two tables of the accuracy pre-check: a line per call, and a line per result.

A line is written when its call is judged, details first, so that after a kill every call of the result table is
complete, and ``-csv_path`` goes on behind it. Documented format: UTF-8 with a byte order mark, a blank cell is a space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msprobe.core.errors import InterfaceError, ReadError
from msprobe.core.store.safe_files import make_folder
from msprobe.numerics.published.metrics import PublishedMetrics
from msprobe.precheck.appended_table import BLANK, append_lines, create_table, keep_lines, read_lines
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status, figures, worse

RESULT_COLUMNS = ("API name", "Forward Test Success", "Backward Test Success", "Message")
DETAIL_COLUMNS = (
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape",
    "余弦相似度", "最大绝对误差", "双百指标", "双千指标", "双万指标", "二进制一致错误率", "误差均衡性", "均方根误差",
    "小值域错误占比", "相对误差最大值", "相对误差平均值", "inf/nan错误率", "相对误差错误率", "绝对误差错误率",
    "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比",
    "Status", "Message",
)  # fmt: skip
MINDSPORE_COLUMNS = (
    "API Name", "Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr", "Status", "Message",
)  # fmt: skip
"""Those of the published check of MindSpore, which has fewer metrics."""
_METRICS = slice(4, 21)
"""The columns of the metrics, in the order of ``PublishedMetrics``."""
_RESULT, _DETAILS = "accuracy_checking_result_", "accuracy_checking_details_"
_VALUE = re.compile(r"\.(?:forward|backward)\.output\.\d+$")
_RESULT_NAME = re.compile(_RESULT + r"\d{14}\.csv")


class ResultTables:
    """Appends calls to both tables.

    Attributes:
        result, details: the files.
        before: the status of each call that the result table had already, by its name; the worse one of both passes.
        stamp: the time in the names of the files.
    """

    def __init__(self, result: Path, digits: int, framework: str = "pytorch") -> None:
        """Open the tables ``result`` and the one of details beside it; those that do not exist are made."""
        self._framework = framework
        self.result = result
        self.details = result.with_name(result.name.replace(_RESULT, _DETAILS))
        self.stamp = result.stem.removeprefix(_RESULT)
        self._digits = digits
        lines = statuses_in(result) if result.exists() else ()
        self.before = {name: worse(forward, backward) for name, forward, backward, _ in lines}
        details = DETAIL_COLUMNS if framework == "pytorch" else MINDSPORE_COLUMNS
        for path, columns in ((self.details, details), (self.result, RESULT_COLUMNS)):
            if not path.exists():
                create_table(path, columns)
            else:  # lines of a call that was not finished would be there twice
                keep_lines(path, columns, self._is_of_before)

    def _is_of_before(self, name: str) -> bool:
        """Return whether a line, of a call or of one of its values, is of a call that was finished before."""
        return name in self.before or _VALUE.sub("", name) in self.before

    def add(self, call: CheckedCall) -> None:
        """Append the lines of a call.

        Raises:
            OSError: a file cannot be written.
        """
        lines = [self._details_of(value) for value in call.values]
        if lines:
            append_lines(self.details, lines)
        append_lines(self.result, [(call.name, str(call.forward), str(call.backward), call.message or BLANK)])

    def _details_of(self, value: CheckedValue) -> tuple[str, ...]:
        dtypes = tuple(self._dtype_text(dtype) for dtype in (value.golden_dtype, value.dtype))
        shape = str(list(value.shape)) if value.dtype else BLANK
        chosen: Iterable[float | None] = figures(value.metrics)
        if self._framework != "pytorch":
            own = value.metrics
            chosen = (own.cosine, own.max_absolute_error, own.max_relative_error)
        numbers = (BLANK if number is None else f"{number:.{self._digits}g}" for number in chosen)
        return (value.name, *dtypes, shape, *numbers, str(value.status), value.message or BLANK)

    def _dtype_text(self, dtype: str) -> str:
        return f"{'torch' if self._framework == 'pytorch' else self._framework}.{dtype}" if dtype else BLANK


def new_tables(
    folder: Path, digits: int, framework: str = "pytorch", make: Callable[[], datetime] = datetime.now
) -> ResultTables:
    """Return tables with the time of now in their names.

    Raises:
        OSError: they cannot be made.
    """
    make_folder(folder)
    return ResultTables(folder / f"{_RESULT}{make():%Y%m%d%H%M%S}.csv", digits, framework)


def resumed_tables(result: Path, digits: int, framework: str = "pytorch") -> ResultTables:
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
    return ResultTables(result, digits, framework)


def statuses_in(result: Path) -> Iterator[tuple[str, Status, Status, str]]:
    """Yield name, both statuses and message of each call of a result table.

    Raises:
        ReadError: the file is no result table.
    """
    for line in read_lines(result, RESULT_COLUMNS):
        try:
            yield line[0], Status(line[1].strip()), Status(line[2].strip()), line[3].strip()
        except (ValueError, IndexError) as error:
            raise ReadError(f"{result}: the line of {line[0]!r:.80} has no status of both passes") from error


class MeasuredValue(NamedTuple):
    """A line of the table of details: name, dtype on the device, metrics, first status and its message."""

    name: str
    dtype: str
    metrics: PublishedMetrics
    status: Status
    message: str


def details_in(details: Path) -> Iterator[MeasuredValue]:
    """Yield the lines of a table of details.

    Raises:
        ReadError: the file is no such table.
    """
    for line in read_lines(details, DETAIL_COLUMNS):
        try:
            figures_of = [None if not cell.strip() else float(cell) for cell in line[_METRICS]]
            status = Status(line[-2].strip())
        except ValueError as error:
            raise ReadError(f"{details}: the line of {line[0]!r:.80} holds no numbers, or no status") from error
        dtype = line[2].strip().removeprefix("torch.")
        yield MeasuredValue(line[0], dtype, PublishedMetrics(*figures_of), status, line[-1].strip())
