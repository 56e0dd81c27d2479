"""``SingleSave``: where values are written, what is left out, and that no fault reaches the program."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core import SingleSave
from msprobe.core.errors import MsprobeException
from msprobe.saved_values.folder import find_values

Point = namedtuple("Point", "x y")


@pytest.fixture
def saver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SingleSave:
    monkeypatch.setattr(SingleSave, "_instance", None)
    return SingleSave(str(tmp_path / "dump"))


def files(root: Path) -> dict[str, Any]:
    return {
        f"{name}/{key[3]}": value.read().tolist()
        for name, values in find_values(root).items()
        for key, value in values.items()
    }


def test_layout_and_facts(saver: SingleSave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    saver.step()
    saver.save({"a": np.array([[1.0, 3.0]], np.float32)})
    saver.save({"a": 2})
    saver.save_ex({"a": 4}, 7)
    folder = tmp_path / "dump/data/a/step1/rank3"
    assert sorted(path.name for path in folder.iterdir()) == ["micro_step0", "micro_step1", "micro_step7"]
    facts = json.loads((folder / "micro_step0/a.json").read_text())
    assert facts == {"data": {"max": 3.0, "min": 1.0, "mean": 2.0, "norm": pytest.approx(10**0.5), "shape": [1, 2]}}
    assert np.load(folder / "micro_step7/a.npy").tolist() == 4


def test_nested_values_and_keys_of_one_text(saver: SingleSave, tmp_path: Path) -> None:
    saver.save({"n": {"x.y": 1, "x": {"y": 2}}, "k": {1: 3, "1": 4}, "p": Point(5, [6]), "u": np.uint64(2**64 - 1)})
    assert files(tmp_path / "dump") == {
        "n/x.y": 1, "n/x.y~2": 2, "k/1": 3, "k/1~2": 4, "p/x": 5, "p/y.0": 6, "u/0": 2**64 - 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["..", ".", "", "../../x", "a/b", "\x00", "n" * 300, "/etc"])
def test_no_name_leads_out_of_the_folder(saver: SingleSave, tmp_path: Path, name: str) -> None:
    saver.save({name: 1, "deep": {name: 2}})
    written = list(tmp_path.rglob("*.npy"))
    assert len(written) == 2
    assert all(len(path.relative_to(tmp_path / "dump" / "data").parts) == 5 for path in written)


def test_what_cannot_be_saved_costs_one_line_and_nothing_else(
    saver: SingleSave, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    for _ in range(3):
        saver.save({"text": "x", "loop": loop, "objects": np.array([None]), "good": 1})
    saver.save_ex({"good": 1}, "../../x")
    saver.save([1])
    saver.save_config({"settings": object()})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all("SingleSave: " in line for line in lines)
    assert {name.split("/")[0] for name in files(tmp_path / "dump")} == {"loop", "good"}


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SingleSave, "_instance", None)
    (tmp_path / "file").write_text("")
    saver = SingleSave(str(tmp_path / "file" / "dump"))
    for _ in range(3):
        saver.save({"a": 1})
        saver.save_config({})
        saver.step()
    (line,) = capsys.readouterr().out.splitlines()
    assert "cannot be written" in line and "hoose another dump_path" in line


def test_a_full_disk(saver: SingleSave, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    for number in range(3):
        saver.save({f"a{number}": 1})
    (line,) = capsys.readouterr().out.splitlines()
    assert "No space left on device" in line and "Free some space" in line


def test_one_object_per_path(tmp_path: Path, saver: SingleSave) -> None:
    assert SingleSave(str(tmp_path / "dump")) is saver
    other = SingleSave(str(tmp_path / "other"))
    other.step()
    saver.save({"a": 1})
    other.save({"a": 1})
    assert list(find_values(tmp_path / "dump")["a"]) == [(0, 0, 0, "0")]
    assert list(find_values(tmp_path / "other")["a"]) == [(1, 0, 0, "0")]


@pytest.mark.parametrize(("path", "fmk"), [("x", "jax"), ("s3://a", "pytorch"), ("", "pytorch"), (None, "pytorch")])
def test_wrong_arguments(path: Any, fmk: str) -> None:
    with pytest.raises(MsprobeException, match="SingleSave: "):
        SingleSave(path, fmk)


@pytest.mark.torch
def test_tensors_of_pytorch(saver: SingleSave, tmp_path: Path) -> None:
    import torch

    jagged = torch.nested.nested_tensor([torch.ones(1), torch.zeros(2)], layout=torch.jagged)
    graph = torch.ones(2, requires_grad=True)
    saver.save({
        "bf16": torch.tensor([1.5]).bfloat16(), "float8": torch.ones(1).to(torch.float8_e4m3fn), "graph": graph * 2,
        "jagged": jagged, "sparse": torch.eye(2).to_sparse(), "view": torch.arange(4).reshape(2, 2).T,
        "meta": torch.ones(1, device="meta"),
    })  # fmt: skip
    assert files(tmp_path / "dump") == {
        "bf16/0": [1.5], "float8/0": [1.0], "graph/0": [2.0, 2.0], "jagged/0": [1.0], "jagged/1": [0.0, 0.0],
        "sparse/0": [[1.0, 0.0], [0.0, 1.0]], "view/0": [[0, 2], [1, 3]],
    }  # fmt: skip
    types = {name: value.dtype for name, values in find_values(tmp_path / "dump").items() for value in values.values()}
    assert (types["bf16"], types["float8"], types["view"]) == ("bfloat16", "float8_e4m3fn", "")


@pytest.mark.mindspore
def test_tensors_of_mindspore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mindspore

    monkeypatch.setattr(SingleSave, "_instance", None)
    saver = SingleSave(str(tmp_path), fmk="mindspore")
    weight = mindspore.Parameter(mindspore.Tensor([3]))
    saver.save({"a": [mindspore.Tensor([1.0]), {"b": mindspore.Tensor([2.5], mindspore.bfloat16)}], "weight": weight})
    assert files(tmp_path) == {"a/0": [1.0], "a/1.b": [2.5], "weight/0": [3]}
    assert find_values(tmp_path)["a"][0, 0, 0, "1.b"].dtype == "bfloat16"
