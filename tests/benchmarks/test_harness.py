"""The benchmarks run, on sizes too small to say anything about speed; what they print is checked for form only."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.native import fused
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
TINY = "ops:calls=3,elements=4"


def run(script: str, *arguments: str) -> list[list[str]]:
    """The cells of the table that a benchmark prints, without its head."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def generate(folder: Path, entries: int, seed: int, noise: float, share: float) -> Path:
    """A chained dump of the generator's own command line."""
    options = {"--entries": entries, "--seed": seed, "--noise": noise, "--share": share}
    words = [str(word) for option in options.items() for word in option]
    command = [sys.executable, str(ROOT / "benchmarks" / "generate_dump.py"), str(folder), "--chained", *words]
    return Path(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip())


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_collect_counts_entries_of_recorded_variants_only(tmp_path: Path) -> None:
    costs = tmp_path / "costs.jsonl"
    rows = run(
        "collect",
        *("--workload", TINY, "--variants", "L1.statistics,L1.statistics+filtered", "--rounds", "1", "--warm", "1"),
        *("--steady-memory", "--json", str(costs)),
    )
    assert [row[0] for row in rows] == ["L1.statistics", "L1.statistics+filtered"]
    documents = [json.loads(line) for line in costs.read_text(encoding="utf-8").splitlines()]
    assert [one["entries"] for one in documents] == [3, 0]
    assert documents[0]["on_disk"] > 0 == documents[1]["on_disk"]


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_scale_reports_each_size() -> None:
    rows = run("scale", "--calls", "2,5", "--repeats", "1")
    assert [row[:2] for row in rows] == [["ours", "2"], ["ours", "5"]]


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_compiled_counts_the_entries_of_both_forms() -> None:
    rows = run("compiled", "--workload", "ops:calls=3,elements=4,backward=1", "--rounds", "1", "--steps", "1")
    assert [row[0].split(", ")[1] for row in rows] == ["msprobe", "msprobe_aten"]
    assert rows[0][1] == rows[0][2] != "0"
    assert int(rows[1][2]) > 0


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_memory_compares_with_the_plain_process() -> None:
    rows = run("memory", "--workload", TINY, "--steps", "1", "--repeats", "1")
    assert [row[1] for row in rows] == ["L1.statistics", "created", "none"]
    assert rows[-1][3] == "0"


@pytest.mark.skipif(fused is None, reason="needs the compiled kernel")
def test_kernel_reports_each_dtype() -> None:
    rows = run("kernel", "--dtypes", "float32,bfloat16,bool", "--size", "4096", "--passes", "2")
    assert [row[0] for row in rows] == ["float32", "bfloat16", "bool"]
    assert all(float(cell) > 0 for row in rows for cell in row[1:])


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_cli_runs_every_kind_of_case() -> None:
    cases = ["help", "statistics:20", "same:20", "tiny:20", "some:20", "md5:20", "tensor:0.01", "xlsx:20"]
    cases += ["trend:40", "checkpoint:1"]
    rows = run("cli", "--cases", ",".join(cases), "--rounds", "1")
    assert [row[0] for row in rows] == cases
    assert {row[6] for row in rows} == {"0"}
    assert [row[0] for row in rows if row[8] != "no"] == ["checkpoint:1"]


@pytest.mark.slow
def test_cli_compares_with_another_tree() -> None:
    rows = run("cli", "--cases", "help", "--rounds", "1", "--before", str(ROOT))
    assert [row[1] for row in rows] == ["ours", "before", "again"]
    assert all(float(ratio) > 0 for row in rows if row[1] != "before" for ratio in row[9:])
    assert [row[9:] for row in rows if row[1] == "before"] == [["-"] * 4]


@pytest.mark.parametrize(("noise", "share", "differing"), [(0.0, 1.0, 0.0), (1e-7, 1.0, 1.0), (1e-3, 0.1, 0.1)])
def test_chained_dumps_differ_as_wished(tmp_path: Path, noise: float, share: float, differing: float) -> None:
    sides = [
        json.loads((folder / "rank0" / "dump.json").read_text())["data"]
        for seed in (0, 1)
        for folder in [generate(tmp_path / str(seed), 400, seed, noise, share)]
    ]
    results = [[body["output"][0]["Max"] for body in data.values()] for data in sides]
    apart = [abs(own - other) / abs(own) for own, other in zip(*results, strict=True)]
    assert max(apart) <= noise
    assert sum(value > 0 for value in apart) / len(apart) == pytest.approx(differing, abs=0.05)


def test_a_chained_call_gets_what_the_call_before_returned(tmp_path: Path) -> None:
    data = json.loads((generate(tmp_path, 40, 1, 1e-7, 1.0) / "rank0" / "dump.json").read_text())["data"]
    calls = [body for name, body in data.items() if name.endswith("forward")]
    assert all(later["input_args"][0] == call["output"][0] for call, later in itertools.pairwise(calls))


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
@pytest.mark.browser
@pytest.mark.skipif(
    importlib.util.find_spec("selenium") is None or not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs selenium, chromium and chromium-driver",
)
def test_view_measures_both_ways_to_look() -> None:
    rows = run("view", "--nodes", "200", "--rounds", "1")
    assert [row[0] for row in rows] == ["server", "offline page"]
    assert all(len(row) == 5 and all(cell[0].isdigit() for cell in row[1:]) for row in rows)


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
def test_ranks_reports_each_number_of_ranks() -> None:
    rows = run("ranks", "--ranks", "1,3", "--entries", "20", "--executors", "serial,processes")
    assert [row[:2] for row in rows] == [["serial", "1"], ["processes", "1"], ["serial", "3"], ["processes", "3"]]
    assert {row[-1] for row in rows} == {"0"}


def test_parse_measures_each_kind_of_file() -> None:
    rows = run("parse", "--size", "1", "--rounds", "1")
    assert len(rows) == 6 and all(float(row[4]) > 0 for row in rows)


@pytest.mark.slow
def test_setup_check_prints_ratios() -> None:
    rows = run("setup_check", "--weights", "9", "--width", "8", "--rounds", "1")
    assert [row[:2] for row in rows] == [["float32", "9"], ["bfloat16", "9"]]
    assert all(float(cell) > 0 for row in rows for cell in row[4:])


@pytest.mark.slow
@pytest.mark.matrix("benchmarks")
@pytest.mark.skipif(fused is None, reason="needs the compiled kernel")
def test_monitor_compares_with_reading_alone() -> None:
    small = "llama:layers=1,hidden=32,vocab=64"
    rows = run("monitor", "--workload", small, "--steps", "1", "--launches", "1")
    assert [row[0].split(",")[0] for row in rows] == ["gradients", "everything"]
    assert all(row[2:4] == ["", ""] and row[1].endswith("%") and row[4].endswith("%") for row in rows)
