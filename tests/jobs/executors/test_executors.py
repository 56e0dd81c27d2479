"""The same comparison wherever its ranks are worked on; a lost worker and an error are one clear line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.host import cpu_count
from msprobe.jobs.compare import compare
from msprobe.jobs.executors import dask
from msprobe.jobs.executors.processes import ProcessExecutor
from msprobe.jobs.executors.select import find_executor
from tests.compare.dumps import call, tensor, write

FIRST, SECOND = "Functional.relu.0.forward", "Functional.gelu.0.forward"
EXECUTORS = ["serial", "processes:2", pytest.param("dask://local", marks=pytest.mark.slow)]
WORK = f"{__name__}:work"


def work(text: str) -> str:
    """What the workers of these tests do."""
    if text == "error":
        raise ReadError("the rank is damaged")
    if text == "full":
        bytearray(1 << 60)
    if text == "die":
        os._exit(3)
    print("noise on the output stream")
    return text.upper()


def run(second: float = 1.0) -> dict[str, object]:
    return {FIRST: call([tensor()], [tensor()]), SECOND: call([tensor(0.5)], [tensor(second)])}


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[Path, Path]:
    """Two steps of three ranks; rank 1 diverges in step 1."""
    for step in (0, 1):
        for rank in range(3):
            write(tmp_path / f"t/step{step}/rank{rank}", run(3.0 if (step, rank) == (1, 1) else 1.0))
            write(tmp_path / f"g/step{step}/rank{rank}", run())
    return tmp_path / "t", tmp_path / "g"


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_answer_does_not_depend_on_the_place(dumps: tuple[Path, Path], tmp_path: Path, executor: str) -> None:
    if executor.startswith("dask"):
        pytest.importorskip("distributed")
    done: list[tuple[int, int]] = []
    result = compare(
        *dumps,
        output=tmp_path / "o",
        junit=tmp_path / "r.xml",
        html=tmp_path / "r.html",
        executor=executor,
        progress=lambda *counts: done.append(counts),
    )
    found = result.summary.first_divergence
    assert found is not None and (found.step, found.rank, found.target) == (1, 1, SECOND)
    assert [outcome.place for outcome in result.outcomes] == [f"step {s}, rank{r}" for s in (0, 1) for r in range(3)]
    assert result.summary.counts.pairs == 24 and len(result.summary.results) == 6
    assert [row for row in (tmp_path / "o").iterdir() if row.suffix != ".csv"] == []
    assert done == [(2, 6), (4, 6), (6, 6)]
    assert sum(1 for _ in result.rows()) == 24
    tables = {Path(path).name.rsplit("_", 1)[0]: Path(path).read_text() for path in result.summary.results}
    alone = compare(*dumps, output=tmp_path / "alone", executor="serial")
    assert tables == {Path(path).name.rsplit("_", 1)[0]: Path(path).read_text() for path in alone.summary.results}


def test_workers_answer_in_any_order_and_keep_the_numbers() -> None:
    assert dict(ProcessExecutor(2).run(WORK, ["a", "b", "c"])) == {0: "A", 1: "B", 2: "C"}


def test_an_error_of_the_work_is_raised_here() -> None:
    with pytest.raises(MsprobeException, match="the rank is damaged"):
        list(ProcessExecutor(1).run(WORK, ["error", "b"]))


def test_a_worker_without_memory_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MsprobeException, match=r"memory ran out.*processes:N"):
        list(ProcessExecutor(1).run(WORK, ["full"]))
    assert capfd.readouterr().err == ""


def test_a_lost_worker_is_told() -> None:
    with pytest.raises(MsprobeException, match=r"ended with status 3.*processes:N"):
        list(ProcessExecutor(1).run(WORK, ["die"]))


def test_no_worker_outlives_a_broken_off_run() -> None:
    answers = ProcessExecutor(2).run(WORK, ["a"] * 50)
    next(answers)
    answers.close()
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        started = [Path(f"/proc/{child}/cmdline") for child in children.read_text().split()]
        assert not any(b"execute.worker" in line.read_bytes() for line in started if line.exists())


@pytest.mark.parametrize("name", ["thread", "processes:0", "dask://", "dask://host", "processes:x"])
def test_unknown_executors_are_refused(name: str) -> None:
    with pytest.raises(MsprobeException, match="known executors: auto, serial"):
        find_executor(name, 2, [0])


def test_processes_are_used_where_they_pay() -> None:
    assert find_executor("auto", 1, [10**9]) is None
    assert find_executor("auto", 64, [100] * 128) is None
    assert isinstance(find_executor("auto", 64, [10**6] * 128), ProcessExecutor) == (cpu_count() > 1)


@pytest.mark.parametrize("name", ["auto", "processes:2", "serial"])
def test_no_more_sizes_are_asked_for_than_tell(name: str) -> None:
    """Of a document in an object store each takes a request."""
    sizes = iter([10**9] * 128)
    find_executor(name, 64, sizes)
    assert len(list(sizes)) >= 127


@pytest.mark.slow
def test_a_running_scheduler_is_joined_and_a_missing_one_told(
    dumps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        assert compare(*dumps, executor=f"dask://{address}").verdict == "diverged"
    monkeypatch.setattr(dask, "_CONNECT_SECONDS", 1)
    with pytest.raises(MsprobeException, match=r"no scheduler answers at 127\.0\.0\.1:1"):
        compare(*dumps, executor="dask://127.0.0.1:1")


@pytest.mark.slow
def test_a_script_that_starts_workers_when_imported_is_told(dumps: tuple[Path, Path], tmp_path: Path) -> None:
    """The workers of Dask import the script that runs, and would start workers in turn."""
    pytest.importorskip("distributed")
    script = tmp_path / "unguarded.py"
    script.write_text(
        f"import msprobe\nmsprobe.compare({str(dumps[0])!r}, {str(dumps[1])!r}, executor='dask://local')\n"
    )
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    last = ended.stderr.rstrip().splitlines()[-1]
    assert ended.returncode == 1 and "MsprobeException" in last
    assert 'put the call of msprobe under `if __name__ == "__main__":`' in last
