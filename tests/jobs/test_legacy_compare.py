"""The older names of the comparison take the keywords they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import MsprobeException
from tests.compare.dumps import call, tensor, write

TARGET = {"Torch.abs.0.forward": call([tensor()], [tensor()])}
GOLDEN = {"Torch.abs.3.forward": call([tensor()], [tensor()])}


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    sides = {"npu_path": write(tmp_path / "t/rank0", TARGET), "bench_path": write(tmp_path / "g/rank0", GOLDEN)}
    return {name: str(folder / "dump.json") for name, folder in sides.items()}


def _old(line: str) -> Any:
    names: dict[str, Any] = {}
    exec(line, names)
    return names["old"]


LINES = [
    "from msprobe.pytorch.compare.pt_compare import pt_compare as old",
    "from msprobe.mindspore.compare.ms_compare import ms_compare as old",
    "from msprobe.mindspore.compare import compare as old",
    "from msprobe.pytorch import compare as old",
]


@pytest.mark.parametrize("line", LINES)
def test_keywords_reach_the_comparison(line: str, paths: dict[str, str], tmp_path: Path) -> None:
    mapping = {"Torch.abs.0.forward": "Torch.abs.3.forward"}
    result = _old(line)(paths, str(tmp_path / "out"), data_mapping=mapping, suffix="_mine", is_print_compare_log=True)
    assert result.summary.counts.passed == 2 and result.summary.counts.target_only == 0
    assert [path.name.rpartition("_")[0] for path in (tmp_path / "out").iterdir()] == ["compare_result_mine"]


@pytest.mark.parametrize("where", ["in_the_paths", "as_keyword"])
def test_a_line_per_value(where: str, paths: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked: dict[str, Any] = {"is_print_compare_log": True}
    given = {**paths, **asked} if where == "in_the_paths" else paths
    result = _old(LINES[0])(given, str(tmp_path / "out"), **({} if given is not paths else asked))
    lines = [record.message for record in caplog.records if "Compare result" in record.message]
    assert len(lines) == sum(1 for _ in result.rows())
    assert all("] Compare result: Max diff " in line for line in lines)


def test_arguments_in_their_old_order(paths: dict[str, str], tmp_path: Path) -> None:
    compare = _old(LINES[-1])
    assert compare(paths, str(tmp_path / "out"), False, True, True).summary.counts.passed == 2
    with pytest.raises(MsprobeException, match="at most 6 arguments"):
        compare(paths, str(tmp_path / "out"), 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "line",
    [
        "from msprobe.pytorch.compare.distributed_compare import compare_distributed as old",
        "from msprobe.mindspore.compare.distributed_compare import ms_compare_distributed as old",
    ],
)
def test_ranks(line: str, paths: dict[str, str], tmp_path: Path) -> None:
    old, sides = _old(line), (str(tmp_path / "t"), str(tmp_path / "g"), str(tmp_path / "out"))
    assert old(*sides, fuzzy_match=True).summary.counts.passed == 2
    assert [path.name.rpartition("_")[0] for path in (tmp_path / "out").iterdir()] == ["compare_result_rank0"]
    with pytest.raises(MsprobeException, match="no suffix"):
        old(*sides, suffix="_x")


def test_the_documents_of_the_first_difference(paths: dict[str, str], tmp_path: Path) -> None:
    """In place of a table."""
    write(tmp_path / "t/rank0", {"Torch.abs.3.forward": call([tensor()], [tensor(3.0)])})
    result = _old(LINES[0])(paths, str(tmp_path / "out"), first_diff_analyze=True)
    names = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "out").iterdir())
    assert names == ["compare_result_rank0", "diff_analyze"]
    assert sorted(result.files) == sorted((tmp_path / "out").iterdir())
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json"}
    assert result.document["rank_0"][0]["op_name"] == "Torch.abs.3.forward"


def test_a_mapping_is_used_for_the_first_difference(paths: dict[str, str], tmp_path: Path) -> None:
    old, asked = _old(LINES[0]), {"first_diff_analyze": True, "fuzzy_match": True}
    assert not old(paths, str(tmp_path / "out"), **asked).document


def test_the_matrices_to_multiply_with(paths: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match=r"nowhere\.yaml"):
        _old(LINES[0])(paths, str(tmp_path / "out"), config=str(tmp_path / "nowhere.yaml"))


@pytest.mark.parametrize("line", LINES)
def test_training_against_inference(line: str, paths: dict[str, str], tmp_path: Path) -> None:
    result = _old(line)(paths, str(tmp_path / "out"), consistent_check=True, backend="fsdp")
    assert any(file.name.startswith("layer_mapping") for file in (tmp_path / "out").iterdir()) and result.verdict
    with pytest.raises(MsprobeException, match="consistent_check needs backend, one of fsdp, megatron"):
        _old(line)(paths, str(tmp_path / "none"), consistent_check=True)
    assert not (tmp_path / "none").exists()
