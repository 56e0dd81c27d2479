"""Folders of processes whose rank comes late, or is another's as well."""

from __future__ import annotations

import pytest
import torch

from msprobe.core.store.reader import find_dumps
from tests.adapters.pytorch.distributed.two_rank_job import Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_comes_late_renames_the_folder(job: Job, rank: int) -> None:
    assert job.seen[rank]["moved_at_once"]
    document = job.read("move", rank)
    assert list(document["data"]) == ["Functional.relu.0.forward", "Functional.gelu.0.forward"]
    folder = job.folder / "move" / "step0" / f"rank{rank}" / "dump_tensor_data"
    assert document["dump_data_dir"] == str(folder)
    for name in ("relu.0.forward.input.0", "gelu.0.forward.output.0"):
        torch.load(folder / f"Functional.{name}.pt", weights_only=True)
    assert f"this process is rank {rank} now" in job.logs[rank]


def test_nothing_is_left_of_the_former_folders(job: Job) -> None:
    assert sorted(path.name for path in (job.folder / "move" / "step0").iterdir()) == ["rank0", "rank1"]


@pytest.mark.parametrize("step", [0, 1])
def test_two_processes_of_one_rank_keep_apart(job: Job, step: int) -> None:
    own = f"rank0_{job.seen[1]['pid']}"
    for label, value in (("rank0", 1.0), (own, 2.0)):
        entry = job.data("same_rank", label, step)["Functional.relu.0.forward"]
        assert entry["output"][0]["Max"] == value
    assert "another running process records as rank 0" in job.logs[1]
    assert "another running process" not in job.logs[0]


def test_the_reader_finds_them_all(job: Job) -> None:
    places = find_dumps(job.folder / "same_rank")
    own = f"rank0_{job.seen[1]['pid']}"
    assert [(place.step, place.label) for place in places] == [(0, "rank0"), (0, own), (1, "rank0"), (1, own)]
