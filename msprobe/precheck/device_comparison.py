"""Two devices by their tables of details: each result judged by the published standard of its function.

Both tables come from ``acc_check`` of one dump, one on each device. A result that the standard cannot judge keeps an
``error`` of the first table, so that what could not be compared never passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import make_folder
from msprobe.numerics.published.second_stage import SecondStage, second_stage
from msprobe.precheck.appended_table import BLANK, append_lines, create_table
from msprobe.precheck.checked_call import BACKWARD, FORWARD, OF_LEVEL, Status, worse
from msprobe.precheck.result_tables import RESULT_COLUMNS, MeasuredValue, details_in

_VALUES: Mapping[str, str] = {
    "小值域错误比值": "small_value_error_share",
    "均方根误差比值": "rmse",
    "相对误差最大值比值": "max_relative_error",
    "相对误差平均值比值": "mean_relative_error",
    "误差均衡性比值": "error_balance",
    "inf/nan错误率": "nonfinite_error_rate",
    "相对误差错误率": "relative_error_rate",
    "绝对误差错误率": "absolute_error_rate",
    "二进制一致错误率": "binary_error_rate",
    "ULP误差平均值": "mean_ulp_error",
    "ULP误差大于阈值占比": "ulp_share_over_threshold",
    "ULP误差大于阈值占比比值": "ulp_share_ratio",
    "双千指标": "share_1000",
}
_LEVELS: Mapping[str, str] = {
    "小值域判定结果": "small_value_error_share",
    "均方根误差判定结果": "rmse",
    "相对误差最大值判定结果": "max_relative_error",
    "相对误差平均值判定结果": "mean_relative_error",
    "误差均衡性判定结果": "error_balance",
    "inf/nan判定结果": "nonfinite_error_rate",
    "相对误差判定结果": "relative_error_rate",
    "绝对误差判定结果": "absolute_error_rate",
    "二进制一致错误率判定结果": "binary_error_rate",
    "ULP误差判定结果": "ulp_share_over_threshold",
    "双千指标判定结果": "share_1000",
}
DETAIL_COLUMNS = (
    "API Name", "小值域错误比值", "小值域判定结果", "均方根误差比值", "均方根误差判定结果", "相对误差最大值比值",
    "相对误差最大值判定结果", "相对误差平均值比值", "相对误差平均值判定结果", "误差均衡性比值", "误差均衡性判定结果",
    "inf/nan错误率", "inf/nan判定结果", "相对误差错误率", "相对误差判定结果", "绝对误差错误率", "绝对误差判定结果",
    "二进制一致错误率", "二进制一致错误率判定结果", "ULP误差平均值", "ULP误差大于阈值占比", "ULP误差大于阈值占比比值",
    "ULP误差判定结果", "双千指标", "双千指标判定结果", "比对结果", "比对算法", "Message",
)  # fmt: skip
_RESULT, _DETAILS = "api_precision_compare_result_", "api_precision_compare_details_"
_DIGITS = 10


@dataclass(slots=True)
class ComparedCall:
    """One call: the statuses of its passes, and what is wrong."""

    name: str
    statuses: dict[str, Status] = field(default_factory=lambda: dict.fromkeys((FORWARD, BACKWARD), Status.SKIP))
    messages: list[str] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """The worse status of both passes."""
        return worse(*self.statuses.values())


@dataclass(frozen=True, slots=True)
class DeviceComparison:
    """The result: both tables, and the calls in the order of the table of the device under test."""

    result: Path
    details: Path
    calls: list[ComparedCall]


def compare_devices(
    target: Path, other: Path, folder: Path, make: Callable[[], datetime] = datetime.now
) -> DeviceComparison:
    """Judge the results of a device by those of another one, and write both tables.

    Args:
        target: the table of details of the device under test.
        other: that of the device to compare with.
        folder: for the tables.
        make: returns the time for their names.

    Raises:
        ReadError: a table cannot be read, or has no line.
        OSError: a table cannot be written.
    """
    own = list(details_in(target))
    if not own:
        raise ReadError(f"{target}: holds no result; give a table of details that acc_check wrote")
    others = {value.name: value for value in details_in(other)}
    make_folder(folder)
    stamp = f"{make():%Y%m%d%H%M%S}.csv"
    result, details = folder / f"{_RESULT}{stamp}", folder / f"{_DETAILS}{stamp}"
    create_table(details, DETAIL_COLUMNS)
    create_table(result, RESULT_COLUMNS)
    calls: dict[str, ComparedCall] = {}
    lines = list(_judged_lines(own, others, calls))
    append_lines(details, lines)
    append_lines(
        result,
        [
            (call.name, str(call.statuses[FORWARD]), str(call.statuses[BACKWARD]), "; ".join(call.messages) or BLANK)
            for call in calls.values()
        ],
    )
    return DeviceComparison(result, details, list(calls.values()))


def _judged_lines(
    own: list[MeasuredValue], others: Mapping[str, MeasuredValue], calls: dict[str, ComparedCall]
) -> Iterator[list[str]]:
    for value in own:
        name, phase = _call_and_phase(value.name)
        there = others.get(value.name)
        judged = second_stage(
            name.rpartition(".")[0].rpartition(".")[2],
            value.dtype,
            value.metrics,
            None if there is None else there.metrics,
        )
        status = _status(judged, value)
        message = judged.message or (value.message if status is Status.ERROR else "")
        call = calls.setdefault(name, ComparedCall(name))
        call.statuses[phase] = worse(call.statuses[phase], status)
        if message:
            call.messages.append(f"{value.name[len(name) + 1 :]}: {message}")
        yield [_cell(column, value.name, judged, (status, message)) for column in DETAIL_COLUMNS]


def _call_and_phase(row: str) -> tuple[str, str]:
    """Return the call and the pass of a row: ``Torch.mm.0.forward.output.0`` is of ``Torch.mm.0``, ``forward``."""
    for phase in (FORWARD, BACKWARD):
        name, found, _ = row.rpartition(f".{phase}.output.")
        if found:
            return name, phase
    return row, FORWARD


def _status(judged: SecondStage, value: MeasuredValue) -> Status:
    if judged.level is not None:
        return OF_LEVEL[judged.level]
    return Status.ERROR if value.status is Status.ERROR else Status.SKIP


def _cell(column: str, name: str, judged: SecondStage, outcome: tuple[Status, str]) -> str:
    if column == "API Name":
        return name
    if column in _VALUES:
        number = judged.metrics.get(_VALUES[column])
        return BLANK if number is None else f"{number:.{_DIGITS}g}"
    if column in _LEVELS:
        level = judged.levels.get(_LEVELS[column])
        return BLANK if level is None else str(OF_LEVEL[level])
    if column == "比对算法":
        return BLANK if judged.standard is None else judged.standard.value
    return str(outcome[0]) if column == "比对结果" else outcome[1] or BLANK
