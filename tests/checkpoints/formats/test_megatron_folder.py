"""Megatron folders that are not whole: one clear error, never a comparison of what is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from msprobe.checkpoints.load import read_checkpoint
from msprobe.core.errors import ReadError
from tests.checkpoints.formats.jobs import Job, save, whole_model

pytestmark = pytest.mark.torch
ITERATION = "iter_0000010"


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / ITERATION / name)


def _latest(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "latest_checkpointed_iteration.txt").write_text(text)


def _cut(folder: Path) -> None:
    file = folder / ITERATION / "mp_rank_01_000" / "model_optim_rng.pt"
    file.write_bytes(file.read_bytes()[:-300])


def _without_model(folder: Path) -> None:
    torch.save({"iteration": 10}, folder / ITERATION / "mp_rank_00_000" / "model_optim_rng.pt")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(_remove("mp_rank_01_001"), "tensor rank 1, pipeline rank 1", id="a-rank-of-the-grid"),
        pytest.param(_remove("mp_rank_00_000"), "tensor rank 0, pipeline rank 0", id="the-first-rank"),
        pytest.param(_latest("11"), "iter_0000011: no such folder", id="another-iteration"),
        pytest.param(_latest("soon"), "neither the number", id="no-iteration"),
        pytest.param(_cut, "mp_rank_01_000", id="a-file-cut-off"),
        pytest.param(_without_model, "no tensors under `model`", id="no-model"),
        pytest.param(
            lambda folder: (folder / ITERATION / "mp_rank_01_001" / "model_optim_rng.pt").unlink(),
            "no model_optim_rng.pt",
            id="no-file",
        ),
        pytest.param(lambda folder: (folder / ITERATION / "mp_rank_02").mkdir(), "mp_rank_02", id="another-layout"),
    ],
)
def test_damage_is_named(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "job", whole_model(), Job(tensor=2, pipeline=2))
    damage(folder)
    with pytest.raises(ReadError, match=message):
        read_checkpoint(folder)


def test_a_distributed_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ITERATION).mkdir()
    (tmp_path / ITERATION / "__0_0.distcp").write_text("")
    _latest("10")(tmp_path)
    with pytest.raises(ReadError, match=r"without \.metadata"):
        read_checkpoint(tmp_path)


def test_ranks_that_only_the_arguments_know_of_are_missing(tmp_path: Path) -> None:
    folder = save(tmp_path / "job", whole_model(), Job(tensor=4))
    for rank in (2, 3):
        shutil.rmtree(folder / ITERATION / f"mp_rank_{rank:02d}")
    with pytest.raises(ReadError, match="tensor rank 2"):
        read_checkpoint(folder)


def test_the_latest_iteration_is_read_and_one_can_be_chosen(tmp_path: Path) -> None:
    folder = save(tmp_path / "job", whole_model(seed=1), Job(), iteration=5)
    other = save(tmp_path / "other", whole_model(seed=2), Job(), iteration=10)
    shutil.move(other / ITERATION, folder / ITERATION)
    _latest("10")(folder)
    name = "decoder.final_layernorm.weight"
    latest, chosen = read_checkpoint(folder), read_checkpoint(folder / "iter_0000005")
    assert latest.tensors[name].read().tolist() == whole_model(seed=2)[name].tolist()
    assert chosen.tensors[name].read().tolist() == whole_model(seed=1)[name].tolist()
    (folder / "latest_checkpointed_iteration.txt").unlink()
    assert "iter_0000010" in read_checkpoint(folder).layout
