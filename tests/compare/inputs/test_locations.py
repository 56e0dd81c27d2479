"""Dumps in another store: the memory file system of fsspec stands for any of them."""

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.analyze.noise_learning import learn
from msprobe.analyze.overflow import check_overflow
from msprobe.cli.main import run
from msprobe.compare.inputs.locations import opened
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.host import is_url
from msprobe.jobs.compare import compare
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, tensor, write

FIRST = "Functional.relu.0.forward"


@pytest.fixture
def store() -> Iterator[str]:
    pytest.importorskip("upath")
    import fsspec

    memory = fsspec.filesystem("memory")
    yield "memory://runs"
    memory.rm("/runs", recursive=True)


def upload(folder: Path, url: str) -> str:
    import fsspec

    fsspec.filesystem("memory").put(str(folder), url.removeprefix("memory://"), recursive=True)
    return url


def test_a_url_is_told_from_a_path() -> None:
    assert [is_url(text) for text in ("s3://a/b", "memory://a", "/a/b", "C:\\a", "a//b")] == [True, True] + [False] * 3
    assert opened("a/b") == Path("a/b")


def test_two_runs_in_a_store(store: str, tmp_path: Path) -> None:
    for rank, scale in ((0, 1.0), (1, 3.0)):
        write(tmp_path / f"t/step0/rank{rank}", {FIRST: call([tensor()], [tensor(scale)])})
        write(tmp_path / f"g/step0/rank{rank}", {FIRST: call([tensor()], [tensor()])})
    left, right = (upload(tmp_path / side, f"{store}/{side}") for side in "tg")
    result = compare(left, right, output=tmp_path / "o")
    found = result.summary.first_divergence
    assert found is not None and (found.step, found.rank, found.target) == (0, 1, FIRST)
    assert len(result.summary.results) == 2 and sum(1 for _ in result.rows()) == 4


def test_analyses_of_runs_in_a_store(store: str, tmp_path: Path) -> None:
    for side, output in (("t", tensor(Max=math.inf)), ("g", tensor())):
        write(tmp_path / side / "step0" / "rank0", {FIRST: call([tensor()], [output])})
    left, right = (upload(tmp_path / side, f"{store}/{side}") for side in "tg")
    assert list(diff_analyze(left, right, tmp_path / "o").document) == ["rank_0"]
    (finding,) = check_overflow(left).document()["rank_0"]
    assert finding["op_name"] == FIRST
    with pytest.raises(MsprobeException, match="a folder of this machine"):
        diff_analyze(left, right, f"{store}/out")


def test_a_store_against_a_folder_with_tensor_files(store: str, tmp_path: Path) -> None:
    entry = {FIRST: call([tensor(data_name="a.npy")], [tensor(data_name="b.npy")])}
    for side in "tg":
        folder = write(tmp_path / side, entry, task="tensor") / "dump_tensor_data"
        folder.mkdir()
        for name in ("a.npy", "b.npy"):
            np.save(folder / name, np.arange(32, dtype=np.float32) + (side + name == "tb.npy"))
    summary = compare(upload(tmp_path / "t", f"{store}/t"), tmp_path / "g").summary
    assert summary.first_divergence is not None and summary.first_divergence.slot == "output.0"


def test_nothing_at_a_url_is_one_clear_error(store: str, tmp_path: Path) -> None:
    write(tmp_path / "t", {FIRST: call([], [tensor()])})
    upload(tmp_path / "t", f"{store}/t")
    with pytest.raises(ReadError, match="no such file or folder"):
        compare(f"{store}/nowhere", f"{store}/t")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        pytest.param("nosuch://a", "nosuch://a", id="unknown-protocol"),
        pytest.param("s3://bucket/run", r"msprobe\[remote\]|Install s3fs|s3", id="missing-driver"),
    ],
)
def test_a_url_that_cannot_be_opened(url: str, told: str) -> None:
    if url.startswith("s3") and _has("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(MsprobeException, match=told):
        opened(url)


def _has(module: str) -> bool:
    code = f"import {module}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("option", ["output", "html", "junit"])
def test_results_are_not_written_to_a_url(tmp_path: Path, option: str) -> None:
    with pytest.raises(MsprobeException, match=rf"{option} s3://bucket/out: .* folder of this machine"):
        compare(tmp_path / "not even", tmp_path / "looked at", **{option: "s3://bucket/out"})


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("compare", "-tp", "t", "-gp", "t", "--json", "s3://b/x.json"), id="json"),
        pytest.param(("graph_visualize", "-tp", "t", "-o", "s3://b/x"), id="graph"),
        pytest.param(("view", "t", "--html", "s3://b/x.html"), id="page"),
        pytest.param(("noise", "t", "t", "-o", "s3://b/x.json"), id="noise"),
        pytest.param(("merge_result", "-i", "t", "-o", "s3://b/x", "-config", "c.yaml"), id="merged"),
    ],
)
def test_a_url_to_write_to_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t", {FIRST: call([], [tensor()])})
    assert run(arguments) == 2
    assert "s3://b/x" in (told := capsys.readouterr().err) and "folder of this machine" in told
    assert told.count("\n") == 1 and [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_mapping_and_a_noise_file_in_a_store(store: str, tmp_path: Path) -> None:
    ours, theirs = ({name: call([tensor()], [tensor()])} for name in (FIRST, FIRST.replace("relu", "gelu")))
    dumps = write(tmp_path / "t", ours), write(tmp_path / "g", theirs)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "names.yaml").write_text(f"{FIRST}: {next(iter(theirs))}\n")
    learn([dumps[0], dumps[0]]).profile.write(tmp_path / "store" / "noise.json")
    url = upload(tmp_path / "store", f"{store}/files")
    found = compare(*dumps, data_mapping=f"{url}/names.yaml", noise=f"{url}/noise.json")
    assert (found.verdict, found.summary.counts.pairs) == ("same", 2)
    with pytest.raises(ReadError, match=r"absent\.yaml: the data mapping cannot be read"):
        compare(*dumps, data_mapping=f"{url}/absent.yaml")


def test_a_graph_of_runs_in_a_store(store: str, tmp_path: Path) -> None:
    write(tmp_path / "t" / "step0" / "rank0", {FIRST: call([tensor()], [tensor()])})
    url = upload(tmp_path / "t", f"{store}/t")
    made = visualize(Request(target=url, golden=url, output=tmp_path / "o"))
    assert made.parent == tmp_path / "o" and made.name.startswith("compare_")


def test_paths_load_no_store(tmp_path: Path) -> None:
    dump = write(tmp_path / "t", {FIRST: call([], [tensor()])})
    code = (
        f"import sys, msprobe; msprobe.compare({str(dump)!r}, {str(dump)!r}); "
        "assert not {'fsspec', 'upath', 'distributed', 'pandas', 'xlsxwriter', 'jinja2', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
