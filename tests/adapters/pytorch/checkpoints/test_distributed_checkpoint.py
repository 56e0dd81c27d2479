"""Folders of ``torch.distributed.checkpoint``: read tensor by tensor, and refused where they are damaged or hostile."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.checkpoints.job import compare_checkpoints
from msprobe.checkpoints.load import read_checkpoint
from msprobe.core.errors import ReadError
from tests.ranks import run_ranks

pytestmark = pytest.mark.torch


def save(folder: Path, state: dict[str, Any]) -> Path:
    dcp.save(state, checkpoint_id=folder, no_dist=True)
    return folder


def test_dtypes_and_nested_names(tmp_path: Path) -> None:
    state = {"model": {"w": torch.randn(4, 3), "b": torch.ones(5).bfloat16(), "i": torch.arange(3)}, "step": 3}
    found = read_checkpoint(save(tmp_path / "a", state))
    assert found.layout == "distributed checkpoint"
    assert {name: (one.shape, one.dtype) for name, one in found.tensors.items()} == {
        "w": ((4, 3), "float32"),
        "b": ((5,), "bfloat16"),
        "i": ((3,), "int64"),
    }
    assert found.tensors["w"].read().tolist() == state["model"]["w"].tolist()  # type: ignore[index]


def test_against_a_file(tmp_path: Path) -> None:
    state = {"w": torch.randn(40, 3), "v": torch.randn(2)}
    torch.save(state, tmp_path / "a.pt")
    assert compare_checkpoints(save(tmp_path / "a", state), tmp_path / "a.pt").same


def test_elements_that_do_not_lie_one_after_the_other(tmp_path: Path) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    state = {"turned": whole.t(), "columns": whole[:, 1:3]}
    found = read_checkpoint(save(tmp_path / "a", state)).tensors
    assert {name: one.read().tolist() for name, one in found.items()} == {
        name: one.tolist() for name, one in state.items()
    }


def test_what_is_no_weight_is_counted(tmp_path: Path) -> None:
    state = {"w": torch.ones(2), "n": 3, "nested": {"lr": 0.1}}
    found = read_checkpoint(save(tmp_path / "a", state))
    assert (list(found.tensors), sorted(found.skipped)) == (["w"], ["n", "nested.lr"])


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("ranks", [1, 2])
def test_fsdp_with_optimizer_against_the_whole_state_dict(ranks: int, tmp_path: Path) -> None:
    run_ranks(
        "tests.adapters.pytorch.checkpoints.save_fsdp",
        ranks,
        lambda rank: [rank, ranks, tmp_path / "store", tmp_path / "a"],
    )
    found = compare_checkpoints(tmp_path / "a", tmp_path / "a.pt")
    assert found.same and {one.name for one in found.parameters} >= {"0.weight", "1.bias", "columns", "copies"}
    assert "generator" in found.skipped[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda whole, entry: whole.storage_data.clear(), "a part of it is in no file", id="no-place"),
        pytest.param(lambda whole, entry: entry.chunks.clear(), "0 of 6 elements", id="no-chunks"),
        pytest.param(lambda whole, entry: entry.chunks.append(entry.chunks[0]), "12 of 6 elements", id="twice"),
        pytest.param(lambda whole, entry: _place(whole, relative_path="../x"), "is no file of", id="outside"),
        pytest.param(lambda whole, entry: _place(whole, offset=1 << 60), "cut off", id="far"),
        pytest.param(lambda whole, entry: _place(whole, length=-1), "cut off", id="minus"),
        pytest.param(lambda whole, entry: _place(whole, offset=7), "cannot be read", id="shifted"),
        pytest.param(lambda whole, entry: setattr(entry, "size", torch.Size([1 << 62])), "does not lie in", id="huge"),
    ],
)
def test_metadata_that_lies_is_a_problem_of_one_tensor(change: Any, message: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "a", {"w": torch.randn(2, 3), "v": torch.ones(2)})
    whole = dcp.FileSystemReader(folder).read_metadata()
    change(whole, whole.state_dict_metadata["w"])
    (folder / ".metadata").write_bytes(pickle.dumps(whole))
    with pytest.raises(ReadError, match=message) as caught:
        read_checkpoint(folder).tensors["w"].read()
    assert "\n" not in str(caught.value)


def _place(whole: Any, **changed: Any) -> None:
    for index, place in whole.storage_data.items():
        if index.fqn == "w":
            whole.storage_data[index] = dataclasses.replace(place, **changed)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_one_error_of_ours(data: st.DataObject, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    if not folder.exists():
        save(folder, {"w": torch.arange(6.0), "n": 3})
    name = data.draw(st.sampled_from([".metadata", "__0_0.distcp"]))
    sound = (folder / name).read_bytes()
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(len(sound) // 2, len(sound))) :]
    (folder / name).write_bytes(damaged)
    try:
        for tensor in read_checkpoint(folder).tensors.values():
            tensor.read()
    except ReadError as error:
        assert "\n" not in str(error)
    finally:
        (folder / name).write_bytes(sound)


def test_shards_of_ranks(tmp_path: Path) -> None:
    run_ranks(
        "tests.adapters.pytorch.checkpoints.save_shards", 2, lambda rank: [rank, tmp_path / "store", tmp_path / "a"]
    )
    found = read_checkpoint(tmp_path / "a")
    assert found.tensors["w"].read().tolist() == torch.arange(24.0).reshape(6, 4).tolist()


def test_a_missing_part(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", {"w": torch.randn(2)})
    (folder / "__0_0.distcp").write_bytes(b"")
    with pytest.raises(ReadError, match="cannot be read"):
        read_checkpoint(folder).tensors["w"].read()
    (folder / ".metadata").unlink()
    with pytest.raises(ReadError, match=r"without \.metadata"):
        read_checkpoint(folder)


class Hostile:
    """Runs a command when it is unpickled in the usual way."""

    def __reduce__(self) -> Any:
        return os.system, ("touch hacked",)


def test_what_must_not_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save(tmp_path / "a", {"w": torch.randn(2)})
    (folder / ".metadata").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ReadError, match="cannot be loaded safely"):
        read_checkpoint(folder)
    folder = save(tmp_path / "b", {"w": torch.randn(2)})
    data = io.BytesIO()
    torch.save(Hostile(), data)
    (folder / "__0_0.distcp").write_bytes(data.getvalue())
    with pytest.raises(ReadError, match="cannot be read"):
        read_checkpoint(folder).tensors["w"].read()
    assert not (tmp_path / "hacked").exists()
