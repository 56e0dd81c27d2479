"""Two tables of details, as acc_check writes them, judged by the published second stage."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.core.errors import ReadError
from msprobe.numerics.published.metrics import PublishedMetrics
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status
from msprobe.precheck.device_comparison import DETAIL_COLUMNS, compare_devices
from msprobe.precheck.result_tables import ResultTables

SMALL = PublishedMetrics(
    **dict.fromkeys(("rmse", "max_relative_error", "mean_relative_error", "small_value_error_share"), 1e-7),
    error_balance=0.0, nonfinite_error_rate=0.0, relative_error_rate=0.0, absolute_error_rate=0.0,
    binary_error_rate=0.0, mean_ulp_error=0.5, ulp_share_over_threshold=0.0, share_1000=1.0,
)  # fmt: skip


def table(folder: Path, values: Sequence[tuple[str, PublishedMetrics, Status]], dtype: str = "float32") -> Path:
    folder.mkdir()
    tables = ResultTables(folder / "accuracy_checking_result_20260101120000.csv", 14)
    for name, metrics, status in values:
        call = name.partition(".forward")[0].partition(".backward")[0]
        value = CheckedValue(name, "float64", dtype, (2,), metrics, status, "why" if status is Status.ERROR else "")
        tables.add(CheckedCall(call, values=[value]))
    return tables.details


def changed(**figures: float) -> PublishedMetrics:
    return PublishedMetrics(**{name: figures.get(name, getattr(SMALL, name)) for name in PublishedMetrics.__slots__})


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables(tmp_path: Path) -> None:
    names = ["Torch.softmax.0.forward.output.0", "Torch.softmax.0.backward.output.0", "Torch.matmul.0.forward.output.0"]
    other = table(tmp_path / "gpu", [(name, SMALL, Status.PASS) for name in names])
    wrong = changed(rmse=0.5)
    metrics = (SMALL, wrong, SMALL)
    own = table(tmp_path / "npu", [(name, own, Status.PASS) for name, own in zip(names, metrics, strict=True)])
    found = compare_devices(own, other, tmp_path / "out")
    details = rows(found.details)
    assert tuple(details[0]) == DETAIL_COLUMNS
    assert len(DETAIL_COLUMNS) == 28
    assert [row["比对结果"] for row in details] == ["pass", "error", "pass"]
    assert [row["比对算法"] for row in details] == ["标杆比对法", "标杆比对法", "ULP误差比对法"]
    assert details[1]["均方根误差判定结果"] == "error"
    assert float(details[1]["均方根误差比值"]) == 0.5 * 2**14
    (softmax, matmul) = rows(found.result)
    assert list(softmax.values())[:3] == ["Torch.softmax.0", "pass", "error"]
    assert "backward.output.0: rmse is 8192" in softmax["Message"]
    assert list(matmul.values()) == ["Torch.matmul.0", "pass", "SKIP", " "]


def test_what_the_other_device_lacks_is_no_pass(tmp_path: Path) -> None:
    other = table(tmp_path / "gpu", [("Torch.exp.0.forward.output.0", SMALL, Status.PASS)])
    own = table(
        tmp_path / "npu",
        [("Torch.sin.0.forward.output.0", SMALL, Status.PASS), ("Torch.cos.0.forward.output.0", SMALL, Status.ERROR)],
    )
    sin, cos = compare_devices(own, other, tmp_path / "out").calls
    assert (sin.status, cos.status) == (Status.SKIP, Status.ERROR)
    assert "the other device has no such result" in sin.messages[0]


def test_the_command_ends_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = table(tmp_path / "gpu", [("Torch.relu.0.forward.output.0", SMALL, Status.PASS)])
    own = table(tmp_path / "npu", [("Torch.relu.0.forward.output.0", changed(binary_error_rate=0.1), Status.PASS)])
    words = ["api_precision_compare", "-npu", str(own), "-gpu", str(other), "-o", str(tmp_path / "out")]
    assert run(words) == 0
    assert run([*words[:-1], str(tmp_path / "again"), "--fail-on", "error"]) == 1
    assert "error: Torch.relu.0: forward.output.0: binary_error_rate is 0.1" in capsys.readouterr().out


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ReadError, match="not this kind of table"):
        compare_devices(path, path, tmp_path)
