"""The command line of compare: exit statuses, JSON, files."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.cli.main import run
from tests.compare.dumps import call, tensor, write


def msprobe(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "msprobe", "compare", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    data = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}
    wrong = {"Functional.relu.0.forward": call([tensor()], [tensor(0.6)])}
    checksums = {"Functional.relu.0.forward": call([tensor(md5="00ff00ff")], [tensor(md5="00ff00fe")])}
    return {
        "good": write(tmp_path / "good", data),
        "bad": write(tmp_path / "bad", wrong),
        "empty": write(tmp_path / "empty", {}),
        "md5": write(tmp_path / "md5", checksums),
        "out": tmp_path / "out",
    }


def test_summary_and_statuses(runs: dict[str, Path]) -> None:
    same = msprobe("-tp", runs["good"], "-gp", runs["good"], "-o", runs["out"], "--fail-on", "diverged")
    assert same.returncode == 0 and "SAME" in same.stdout
    done = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"])
    assert done.returncode == 0 and "DIVERGED" in done.stdout and "Functional.relu.0.forward" in done.stdout
    failed = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"], "--fail-on", "diverged", "--json", "-")
    assert failed.returncode == 1
    document = json.loads(failed.stdout)
    assert document["verdict"] == "diverged" and document["counts"]["pass"] == 1
    tables = list(runs["out"].glob("compare_result_*.csv"))
    assert len(tables) == 3
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tables)


@pytest.mark.parametrize(
    ("side", "analyze"),
    [
        pytest.param("target", (), id="step-of-the-target"),
        pytest.param("golden", (), id="step-of-the-golden-run"),
        pytest.param("golden", ("-da",), id="analyzed"),
    ],
)
def test_what_was_not_compared_can_fail(tmp_path: Path, side: str, analyze: tuple[str, ...]) -> None:
    data = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}
    for name in ("target", "golden"):
        for step in (0, 1) if name == side else (0,):
            write(tmp_path / name / f"step{step}" / "rank0", data)
    given = ("-tp", tmp_path / "target", "-gp", tmp_path / "golden", "-o", tmp_path / "out", *analyze)
    assert [msprobe(*given, "--fail-on", level).returncode for level in ("diverged", "incomplete")] == [0, 1]


@pytest.mark.parametrize(
    ("target", "golden", "status"), [("empty", "good", 3), ("empty", "empty", 3), ("md5", "good", 3)]
)
def test_not_comparable(runs: dict[str, Path], target: str, golden: str, status: int) -> None:
    result = msprobe("-tp", runs[target], "-gp", runs[golden], "-o", runs["out"], "--json", "-")
    assert result.returncode == status
    assert json.loads(result.stdout)["verdict"] == "not_comparable"
    assert len(result.stderr.strip().splitlines()) == 1


def test_unreadable_input_is_one_line(runs: dict[str, Path], tmp_path: Path) -> None:
    (runs["bad"] / "dump.json").write_text('{"task": "statistics", "data": {')
    for path in (runs["bad"], tmp_path / "nowhere", tmp_path):
        result = msprobe("-tp", path, "-gp", runs["good"], "-o", runs["out"])
        assert result.returncode == 2 and "Traceback" not in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_statistics_do_not_load_torch(runs: dict[str, Path]) -> None:
    code = (
        "import sys, msprobe.compare; assert 'numpy' not in sys.modules; "
        f"r = msprobe.compare({str(runs['bad'])!r}, {str(runs['good'])!r}); "
        "assert r.verdict == 'diverged' and sum(1 for _ in r.rows()) == 2; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("report", ["--html", "--junit", "--json"])
def test_a_folder_in_the_place_of_a_report_is_told_before_the_work(
    runs: dict[str, Path], tmp_path: Path, report: str
) -> None:
    done = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"], report, tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"{report[2:]} {tmp_path}: a folder is there" in done.stderr and not runs["out"].exists()


def test_reports_go_into_a_folder_that_is_made(runs: dict[str, Path]) -> None:
    pytest.importorskip("jinja2")
    out = runs["out"]
    reports = ("--html", out / "r" / "a.html", "--junit", out / "r" / "a.xml", "--json", out / "j" / "a.json")
    done = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", out, *reports)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (out / "r").iterdir()) == ["a.html", "a.xml"]
    assert json.loads((out / "j" / "a.json").read_text())["verdict"] == "diverged"


@pytest.mark.parametrize(
    ("package", "option", "advice"),
    [("jinja2", ("--html", "page.html"), "--html needs"), ("xlsxwriter", ("--xlsx",), "xlsx needs")],
)
def test_a_missing_package_is_told_before_the_work(
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    option: tuple[str, ...],
    advice: str,
) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / f"{package}.py").write_text(f"raise ImportError('No module named {package}')")
    monkeypatch.setenv("PYTHONPATH", str(absent), prepend=":")
    done = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"], *option)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert advice in done.stderr and not runs["out"].exists()


def test_differing_rows_are_grouped_by_operator(runs: dict[str, Path]) -> None:
    page = runs["out"] / "page.html"
    done = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"], "--group-by", "operator", "--html", page)
    assert "By operator: Functional.relu (forward): 1 row of 1 call, 1 differs by itself" in done.stdout
    assert list(runs["out"].glob("compare_operators_*.csv"))
    assert "Rows that differ, by operator" in page.read_text()
    wrong = msprobe("-tp", runs["bad"], "-gp", runs["good"], "-o", runs["out"], "--group-by", "module")
    assert wrong.returncode == 2 and "'module' is not 'operator'" in wrong.stderr


@pytest.mark.parametrize(
    ("given", "steps"),
    [(("0", "2"), {"0", "2"}), (("0", "1-2"), {"0", "1", "2"}), (("0:1", "1:2"), {"0", "1"})],
)
def test_a_list_may_be_given_in_parts(tmp_path: Path, given: tuple[str, ...], steps: set[str]) -> None:
    for name in ("target", "golden"):
        for step in range(3):
            data = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}
            write(tmp_path / name / f"step{step}" / "rank0", data)
    words = [word for step in given for word in ("--step", step)]
    assert (
        run(["compare", str(tmp_path / "target"), str(tmp_path / "golden"), "-o", str(tmp_path / "out"), *words]) == 0
    )
    tables = [path.name for path in (tmp_path / "out").glob("*.csv")]
    assert {step for step in "012" if any(f"step{step}_" in name for name in tables)} == steps
