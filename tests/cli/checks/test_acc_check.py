"""``msprobe acc_check``: files, statuses, resume, lists, what is kept; calls that hang are lost alone."""

from __future__ import annotations

import csv
import json
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("torch")

import torch

from msprobe.cli.main import run
from msprobe.precheck.result_tables import DETAIL_COLUMNS, RESULT_COLUMNS
from msprobe.pytorch import PrecisionDebugger
from tests.precheck.programs import record

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("forked_workers")]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("run"), "block", torch.float32, "tensor")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A dump with three calls, of which the last is wrong in its file."""
    return write_dump(tmp_path / "small", {
        "Torch.exp.0.forward": call([tensor((3, 4))]),
        "Functional.relu.0.forward": call([tensor((3, 4))]),
        "Torch.nothing_like_it.0.forward": call([tensor((3, 4))]),
        "Distributed.all_reduce.0.forward": call([tensor((3, 4))]),
        "Torch.exp.1.forward": call([tensor((3, 4))]),
    })  # fmt: skip


def tensor(shape: tuple[int, ...], largest: float = 2.0) -> dict[str, Any]:
    figures = {"Max": largest, "Min": -1.0, "Mean": 0.5, "Norm": None, "requires_grad": False}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), **figures}


def call(args: list[Any], **kwargs: Any) -> dict[str, Any]:
    return {"input_args": args, "input_kwargs": kwargs, "output": args[:1]}


def write_dump(folder: Path, data: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    header = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}), encoding="utf-8")
    return folder / "dump.json"


def rows(folder: Path, kind: str = "result") -> list[list[str]]:
    (path,) = folder.glob(f"accuracy_checking_{kind}_*.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def test_the_tables_have_the_documented_names_and_columns(dump: Path, tmp_path: Path) -> None:
    assert run(["acc_check", "-api_info", str(dump), "-o", str(tmp_path)]) == 0
    head, *lines = rows(tmp_path)
    assert tuple(head) == RESULT_COLUMNS
    assert {"pass", "SKIP"} <= {line[1] for line in lines} <= {"pass", "SKIP", "warning"}
    names = [line[0] for line in lines]
    assert len(names) == len(set(names)) > 80
    head, *details = rows(tmp_path, "details")
    assert tuple(head) == DETAIL_COLUMNS
    assert len(head) == 23
    linear = next(line for line in details if line[0] == "Functional.linear.0.backward.output.1")
    assert linear[1:4] == ["torch.float64", "torch.float32", "[64, 64]"]
    assert float(linear[4]) == pytest.approx(1.0)
    (table,) = tmp_path.glob("accuracy_checking_result_*.csv")
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")


def test_what_cannot_be_checked_has_a_row_with_its_reason(small: Path, tmp_path: Path) -> None:
    assert run(["acc_check", "-api_info", str(small), "-o", str(tmp_path / "out")]) == 0
    found = {line[0]: line[1:] for line in rows(tmp_path / "out")[1:]}
    assert found["Torch.exp.0"] == ["pass", "SKIP", " "]
    assert found["Torch.nothing_like_it.0"][:2] == ["SKIP", "SKIP"]
    assert "is no function that msprobe records" in found["Torch.nothing_like_it.0"][2]
    assert found["Distributed.all_reduce.0"][2] == "communication needs the other processes"


def test_a_call_that_returns_something_else_here_is_not_judged(tmp_path: Path) -> None:
    """The record lacks something that the call needs, or the result was wrong where it was recorded."""
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(tmp_path / "run"), "level": "L1", "task": "tensor"})
    with debugger.collect():
        torch.sin(torch.ones(4)), torch.cos(torch.ones(4))
        with torch.autocast("cpu", torch.bfloat16):
            torch.matmul(torch.full((4, 4), 1.01), torch.full((4, 4), 1.01))
    debugger.close()
    (file,) = tmp_path.rglob("Torch.sin.0.forward.output.0.pt")
    torch.save(torch.ones(4), file)
    assert run(["acc_check", "-api_info", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 0
    found = {line[0]: line[1:] for line in rows(tmp_path / "out")[1:]}
    assert found["Torch.sin.0"][:2] == ["SKIP", "SKIP"]
    assert "output.0: element 0 is 1, the golden one 0.841470985" in found["Torch.sin.0"][2]
    assert found["Torch.cos.0"][0] == "pass"
    assert found["Torch.matmul.0"][0] == "pass"  # within the autocast that was recorded


@pytest.mark.parametrize(("dtype", "shape"), [("torch.float32", [4, 4]), ("torch.float64", [3, 3])])
def test_a_result_of_another_form_than_the_recorded_one_is_not_judged(
    tmp_path: Path, dtype: str, shape: list[int]
) -> None:
    """Dropout draws random numbers; which elements ``masked_select`` takes depends on values that are drawn here."""
    wrong = {**tensor((3, 3)), "dtype": dtype, "shape": shape}
    mask = {**tensor((8, 8)), "dtype": "torch.bool", "Max": True, "Min": False, "Mean": None}
    records = {
        "Torch.exp.0.forward": call([tensor((3, 3))]) | {"output": [wrong]},
        "Functional.dropout.0.forward": call([tensor((3, 3))]) | {"output": [wrong]},
        "Torch.masked_select.0.forward": call([tensor((8, 8)), mask]) | {"output": [tensor((64,))]},
        "Torch.exp.1.forward": call([tensor((3, 3))]),
    }
    dump = write_dump(tmp_path / "dump", records)
    assert run(["acc_check", "-api_info", str(dump), "-o", str(tmp_path / "out")]) == 0
    exp, dropout, select, right = rows(tmp_path / "out")[1:]
    for line in (exp, dropout):
        assert line[1] == "SKIP" and line[3].endswith(
            f"output.0 is float32 of shape [3, 3], in the dump {dtype.partition('.')[2]} of shape {shape}"
        )
    assert select[1] == right[1] == "pass"


def test_lists_and_the_filter_choose_calls(small: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for number, (section, names) in enumerate([
        ({"white_list": ["exp"]}, {"Torch.exp.0", "Torch.exp.1"}),
        ({"black_list": ["exp", "all_reduce", "nothing_like_it"]}, {"Functional.relu.0"}),
        ({"white_list": ["exp", "relu"], "black_list": ["exp"]}, {"Functional.relu.0"}),
    ]):
        config.write_text(json.dumps({"task": "run_ut", "run_ut": section}))
        out = tmp_path / f"out{number}"
        assert run(["run_ut", "-api_info", str(small), "-o", str(out), "-config", str(config)]) == 0
        assert {line[0] for line in rows(out)[1:]} == names
    assert run(["acc_check", "-api_info", str(small), "-o", str(tmp_path / "one"), "-f"]) == 0
    assert "Torch.exp.1" not in {line[0] for line in rows(tmp_path / "one")[1:]}


@pytest.mark.parametrize("command", [["acc_check"], ["multi_acc_check", "-n", "2"]])
def test_tensors_of_failing_calls_are_kept_where_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "coarse.py").write_text(
        "import torch\ndef half(x):\n    return x / 2 if x.dtype == torch.float64 else (x * 8).round() / 16\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    calls = {"Lib.half.0.forward": call([tensor((30,))]), "Torch.exp.0.forward": call([tensor((30,))])}
    config = tmp_path / "config.yaml"
    (tmp_path / "kept").mkdir()
    config.write_text(f"error_data_path: {tmp_path / 'kept'}\nprecision: 3\nquantization_api_list: [exp]\n")
    words = [
        "-api_info",
        str(write_dump(tmp_path / "dump", calls)),
        "-o",
        str(tmp_path / "out"),
        "-config",
        str(config),
    ]
    assert run([*command, *words, "-save_error_data", "-d", "0", "-j", "--custom", "Lib=coarse"]) == 0
    assert {line[0]: line[1] for line in rows(tmp_path / "out")[1:]} == {"Lib.half.0": "error", "Torch.exp.0": "pass"}
    kept = {path.name.split(".")[0] for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    assert kept == {"Lib"}
    (details,) = (tmp_path / "out").glob("*details*.csv")
    numbers = [cell for line in csv.reader(details.read_text("utf-8-sig").splitlines()[1:]) for cell in line[4:-2]]
    assert max(len(one.partition("e")[0].replace(".", "").strip("0")) for one in numbers) == 3  # digits of each number


def test_functions_of_the_user_come_from_modules_that_he_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_functions.py").write_text(
        "import torch\ndef half(x):\n    return x / 2\n"
        "def coarse(x):\n    return x / 2 if x.dtype == torch.float64 else (x * 8).round() / 16\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    calls = {f"Lib.{name}.0.forward": call([tensor((30,))]) for name in ("half", "coarse", "absent")}
    words = ["acc_check", "-api_info", str(write_dump(tmp_path / "dump", calls)), "-o", str(tmp_path / "out")]
    assert run(words) == 3
    assert run([*words[:-1], str(tmp_path / "named"), "--custom", "Lib=my_functions"]) == 0
    found = {line[0]: line[1] for line in rows(tmp_path / "named")[1:]}
    assert found == {"Lib.half.0": "pass", "Lib.coarse.0": "error", "Lib.absent.0": "SKIP"}
    capsys.readouterr()
    assert run([*words[:-1], str(tmp_path / "wrong"), "--custom", "Lib=no_such_module"]) == 2
    assert "--custom no_such_module: no such module" in capsys.readouterr().err


def test_a_run_goes_on_behind_an_earlier_one(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["acc_check", "-api_info", str(small), "-o", str(out)]) == 0
    (table,) = out.glob("accuracy_checking_result_*.csv")
    lines = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"".join(lines[:3]) + lines[3][:9])  # as if the machine had lost power
    capsys.readouterr()
    assert run(["acc_check", "-api_info", str(small), "-o", str(out), "-csv_path", str(table)]) == 0
    for kind, count in (("result", 5), ("details", 3)):
        names = [line[0] for line in rows(out, kind)[1:]]
        assert sorted(names) == sorted(set(names))
        assert len(names) == count
    assert "(2 were in the table before)" in capsys.readouterr().out


def test_results_for_programs_and_the_page(dump: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("page.html", "report.xml", "result.json")]
    options = ["--html", str(files[0]), "--junit", str(files[1]), "--json", str(files[2])]
    assert run(["acc_check", "-api_info", str(dump), "-o", str(tmp_path), *options, "--fail-on", "error"]) == 0
    result = json.loads(files[2].read_text())
    assert result["counts"]["error"] == 0
    assert result["counts"]["pass"] > 80
    assert ET.fromstring(files[1].read_text()).attrib["failures"] == "0"
    assert "acc_check" in files[0].read_text()


def test_json_alone_is_printed(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["acc_check", "-api_info", str(small), "-o", str(tmp_path / "out"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"


def test_nothing_checked_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = write_dump(tmp_path / "none", {"Torch.nope.0.forward": call([tensor((2,))])})
    assert run(["acc_check", "-api_info", str(document), "-o", str(tmp_path / "out")]) == 3
    assert "no recorded call could be checked" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_find_the_same(dump: Path, tmp_path: Path) -> None:
    for name, words in (("one", ["acc_check"]), ("two", ["multi_acc_check", "-n", "2"])):
        assert run([*words, "-api_info", str(dump), "-o", str(tmp_path / name)]) == 0
    one, two = (sorted(line[:3] for line in rows(tmp_path / name)) for name in ("one", "two"))
    assert one == two


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_lost_alone(tmp_path: Path) -> None:
    data = {
        "Torch.exp.0.forward": call([tensor((3, 4))]),
        "Torch.matrix_exp.0.forward": call([tensor((6000, 6000))]),  # minutes on two cores
        "Torch.exp.1.forward": call([tensor((3, 4))]),
    }
    document = write_dump(tmp_path / "hang", data)
    begin = time.monotonic()
    assert run(["acc_check", "-api_info", str(document), "-o", str(tmp_path / "out"), "--timeout", "4"]) == 0
    found = {line[0]: line[1:] for line in rows(tmp_path / "out")[1:]}
    assert [found[f"Torch.exp.{number}"][0] for number in (0, 1)] == ["pass", "pass"]
    assert found["Torch.matrix_exp.0"] == ["SKIP", "SKIP", "it took more than 4 seconds"]
    assert time.monotonic() - begin < 100


@pytest.mark.slow
def test_a_killed_run_leaves_whole_lines_and_goes_on(dump: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "msprobe", "acc_check", "-api_info", str(dump), "-o", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tables := list(tmp_path.glob("accuracy_checking_result_*.csv"))) or len(rows(tmp_path)) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = rows(tmp_path)
    assert all(len(line) == len(RESULT_COLUMNS) for line in before)
    assert run(["acc_check", "-api_info", str(dump), "-o", str(tmp_path), "-csv_path", str(tables[0])]) == 0
    after = [line[0] for line in rows(tmp_path)[1:]]
    assert len(after) == len(set(after)) > 80
    assert rows(tmp_path)[: len(before)] == before
