"""The smallest input of each kind of damage that once ended in a trace, a hang or the end of the process."""

from __future__ import annotations

import os
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.monitor.grad_probe.signs import read_signs
from tests.cli.damages import BOMB, ROWS
from tests.cli.hostile_files import FurtherInputs
from tests.cli.outcome import ends_well
from tests.swollen_zips import add_swollen

Change = Callable[[Path], object]
MERGE = "merge_result in/workbooks in/merge.yaml"
SHEET = "xl/worksheets/sheet1.xml"
DUMP, RANK = "in/bad/step0/rank0", "in/ranks/rank_0/monitor_rank0.trend.db"
MONITOR = "in/monitor/Nov26_06-22-50-rank0-5dac5f10/grad_reduced_0-2.csv"

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> FurtherInputs:
    return FurtherInputs(tmp_path_factory.mktemp("smallest") / "case")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sql(statement: str) -> Change:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statement)

    return change


def sheet(pattern: bytes, other: bytes) -> Change:
    def change(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, re.sub(pattern, other, content, count=1) if name == SHEET else content)

    return change


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        add_swollen(archive, SHEET, ROWS, BOMB // len(ROWS))


def model(change: Callable[[onnx.ModelProto], object]) -> Change:
    def changed(path: Path) -> None:
        proto = onnx.load(path, load_external_data=False)
        change(proto)
        path.write_bytes(proto.SerializeToString())

    return changed


def location(value: str) -> Change:
    def change(proto: onnx.ModelProto) -> None:
        tensor = proto.graph.initializer[0]
        tensor.data_location = 1
        tensor.external_data.add(key="location", value=value)

    return model(change)


def first_size(value: int) -> Change:
    return model(lambda proto: setattr(proto.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", value))


def text(content: str) -> Change:
    return lambda path: path.write_text(content)


def added(content: str) -> Change:
    return lambda path: path.write_text(path.read_text() + content)


ENDLESS = "SELECT x AS step FROM (WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r)"
VIEW = sql(f"DROP TABLE trend_data; CREATE VIEW trend_data AS {ENDLESS}")
CASES: dict[str, tuple[Change, str, str]] = {
    "a device as a dump": (endless, f"{DUMP}/dump.json", "compare in/bad/step0/rank0/dump.json in/good -o out/new"),
    "a pipe as a table": (pipe, "in/tables", "merge_result in/tables in/merge.yaml"),
    "a pipe as a graph": (
        pipe,
        "in/kernels/rank_0/graphs/ms_output_trace_code_graph_0.ir",
        "code_mapping in/kernels/rank_0/graphs in/kernels/rank_0/Net/0/0 -o out/new",
    ),
    "a view that never ends": (VIEW, "in/run.trend.db", "view in/run.trend.db --html out/a.html"),
    "such a view of a rank": (VIEW, RANK, "data2db in/ranks -o out/new"),
    "such a view that grows": (VIEW, "out/trend/monitor_data.trend.db", "data2db in/monitor -o out/trend"),
    "a graph with a trigger": (
        sql("CREATE TRIGGER t AFTER INSERT ON tb_nodes BEGIN DELETE FROM tb_nodes; END"),
        "in/graph.vis.db",
        "view in/graph.vis.db --html out/a.html",
    ),
    "a text among numbers": (
        sql("UPDATE trend_data SET norm = x'00'"), RANK, "data2db in/ranks -o out/new",
    ),
    "a name that is no text": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"/act/Relu", b"/act/\xffelu")),
        "in/model.onnx",
        "offline_dump in/model.onnx -o out/new",
    ),
    "a number as a tile": (
        sql("UPDATE msprobe_tiles SET cells = 0.5"), "in/run.trend.db", "view in/run.trend.db --html out/a.html",
    ),
    "an id without an end": (
        sql("UPDATE trend_data SET metric_id = 9e999"),
        "out/trend/monitor_data.trend.db",
        "data2db in/ranks -o out/trend",
    ),
    "a text as an id": (
        sql("DELETE FROM tag_target_mapping; UPDATE sqlite_sequence SET seq = 'x'"),
        "out/trend/monitor_data.trend.db",
        "data2db in/ranks -o out/trend",
    ),
    "a line end in a cell": (added("0,a\rb,3,0,1,1,[],x\n"), MONITOR, "data2db in/monitor -o out/new"),
    "a cell of some megabytes": (added(f"0,{'a' * 200_000},3,0\n"), MONITOR, "data2db in/monitor -o out/new"),
    "a kernel with a long name": (
        added("x" * 200_000),
        "in/statistics/rank_0/Net/0/0/statistic.csv",
        "import in/statistics/rank_0 -o out/new",
    ),
    "a cell far away": (sheet(rb'r="A3"', b'r="XFD1048576"'), "in/workbooks", MERGE),
    "a workbook of gigabytes": (bomb, "in/workbooks", MERGE),
    "a negative size": (first_size(-1), "in/model.onnx", "offline_dump in/model.onnx -o out/new"),
    "a size of terabytes": (first_size(2**40), "in/model.onnx", "offline_dump in/model.onnx -o out/new"),
    "weights in a file named NUL": (location("a\0"), "in/model.onnx", "offline_dump in/model.onnx -o out/new"),
    "a folder of results that is a link to itself": (
        lambda path: path.symlink_to(path.name), "out/new", "parse -d in/tensors --recursive -o out/new",
    ),
    "records that are too deep": (
        text('{"a":' * 100_000), "in/records.json", "op_generate in/records.json --api a -o out/new",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_says_what_is_wrong(name: str, inputs: FurtherInputs) -> None:
    change, place, command = CASES[name]
    inputs.renewed()
    inputs.mark(place)
    path = inputs.root / place
    change(min(path.iterdir()) if path.is_dir() else path)
    status, line = ends_well(command.split(), inputs)
    assert status == 2 and Path(place).name.partition(".")[0] in line


def test_a_gradient_of_more_elements_than_there_are(inputs: FurtherInputs) -> None:
    inputs.renewed()
    inputs.mark("in/gradients")
    summary = inputs.folder / "gradients" / "grad_summary_0.csv"
    summary.write_text(summary.read_text().replace("[4]", "1" * 30))
    action, _ = inputs.chosen("python gradients in/gradients in/gradients out/new")
    assert ends_well(action, inputs)[0] == 0


def test_settings_that_are_nested_deep(inputs: FurtherInputs) -> None:
    inputs.renewed()
    inputs.mark("in/hyper.json")
    (inputs.folder / "hyper.json").write_text('{"a": ' + "[" * 400 + "]" * 400 + "}")
    assert ends_well(["config_check", "-d", "in/hyper.json", "-o", "out/new.zip"], inputs)[0] == 0


@pytest.mark.parametrize(
    "place",
    [
        "in/tensors/step0/rank0/dump.journal",
        "in/tensors/step0/rank0/stack.json",
        "in/tensors/step0/rank0/dump_tensor_data/Functional.relu.0.forward.input.0.npy",
    ],
)
@pytest.mark.parametrize("change", [pipe, endless])
def test_what_is_no_file_does_not_hold_up_a_comparison(change: Change, place: str, inputs: FurtherInputs) -> None:
    inputs.renewed()
    inputs.mark(place)
    change(inputs.root / place)
    assert ends_well(["compare", "in/tensors", "in/tensors", "-o", "out/new"], inputs)[0] == 0


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("step0", "split_inputs in/onnx_run in/onnx_run -o out/new"),
        ("inputs", "offline_dump in/model.onnx -o out/new"),
        ("bench", "config_check -c in/first.zip in/second.zip -o out/new"),
    ],
)
def test_nothing_is_written_through_a_link_in_the_folder_of_results(
    link: str, command: str, inputs: FurtherInputs
) -> None:
    inputs.renewed()
    (inputs.root / "out" / "new").mkdir()
    (inputs.root / "out" / "new" / link).symlink_to(inputs.root / "outside")
    assert ends_well(command.split(), inputs)[0] == 0


def test_damaged_heads_of_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    for content in ((tmp_path / "a.npz").read_bytes(), b"\x93NUMPY\x01\x00\x04\x00{(\n "):
        path.write_bytes(content)
        for read in (read_signs, read_tensor):
            with pytest.raises(ReadError, match=r"a\.npy"):
                read(path)


def test_a_call_number_of_some_thousand_digits(inputs: FurtherInputs) -> None:
    inputs.renewed()
    inputs.mark(DUMP)
    for path in (inputs.root / DUMP).glob("*.json"):
        path.write_text(path.read_text().replace("relu.0", f"relu.{'9' * 5000}"))
    assert ends_well(["compare", "in/bad", "in/good", "-o", "out/new"], inputs)[0] == 0
