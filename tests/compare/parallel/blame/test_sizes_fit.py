"""Sizes that are not those of the ranks are refused in one line that says what was seen; a fault beside right sizes is
a divergence, never called that."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import msprobe
from tests.compare.conftest import Trained
from tests.compare.dumps import call, module, tensor, write

pytestmark = [pytest.mark.torch, pytest.mark.slow]
TENSOR, PIPELINE, WHOLE = ("tensor", 2), ("pipeline", 2), ("whole", 1)


@pytest.mark.parametrize(
    ("target", "golden", "options", "said"),
    [
        (TENSOR, WHOLE, {"target_parallel": "pp=2"}, r"pp=2 is said of the target, but the parts of \d+ parameters"),
        (PIPELINE, WHOLE, {"target_parallel": "tp=3"}, "tp=3,pp=1 is 3 ranks, which does not divide 2"),
        (WHOLE, TENSOR, {"golden_parallel": "pp=2"}, "pp=2 is said of the golden run, but"),
    ],
    ids=["shards as stages", "product", "of the golden run"],
)
def test_other_sizes(
    trained: Trained, target: tuple[str, int], golden: tuple[str, int], options: dict[str, str], said: str
) -> None:
    summary = msprobe.compare(trained(*target), trained(*golden), **options).summary
    assert summary.verdict == "not_comparable"
    assert re.search(said, summary.reason) and "\n" not in summary.reason


@pytest.mark.parametrize("fault", ["layers.2.up.weight", "layers.3.norm.weight"])
def test_a_fault_is_no_matter_of_sizes(trained: Trained, fault: str) -> None:
    summary = msprobe.compare(trained("tensor", 2, fault), trained("whole", 1), target_parallel="tp=2").summary
    assert summary.verdict == "diverged" and "sizes" not in summary.reason


def stages(
    folder: Path, ranks: list[list[str]], width: int = 8, samples: int = 4, odd: dict[str, int] | None = None
) -> Path:
    """Write a dump in which each rank calls these modules, each with one parameter that its path alone decides.

    ``width`` is the first length of its shape, ``odd`` has that of some modules."""
    for rank, paths in enumerate(ranks):
        data = {}
        for path in paths:
            scale = 1.0 + len(path) / 10 + sum(map(ord, path)) / 1000
            value = tensor(shape=(samples, 8)) | {"Norm": 5.0}
            parameter = tensor(scale, shape=((odd or {}).get(path, width), 8))
            data[f"Module.{path}.Linear.forward.0"] = module([value], [value], weight=parameter)
        data["Functional.relu.0.forward"] = call([tensor()], [tensor()])
        write(folder / "step0" / f"rank{rank}", data)
    return folder


LAYERS = [f"layers.{number}" for number in range(4)]
MODEL = ["embedding", *LAYERS, "head"]
FOUR_STAGES = [["embedding", "layers.0"], ["layers.1"], ["layers.2"], ["layers.3", "head"]]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("tp=4", "ranks 0 and 1 are of one pipeline stage; but rank 0 has embedding, which rank 1 has not"),
        ("tp=2,pp=2", "ranks 0 and 1 are of one pipeline stage; but rank 0 has"),
        ("pp=2", "ranks 0 and 1 are replicas; but their modules differ"),
        ("dp=4", "ranks 0 and 1 are of one pipeline stage; but rank 0 has"),
    ],
)
def test_four_stages_told_as_something_else(tmp_path: Path, sizes: str, said: str) -> None:
    """Stages that number their layers from 0, so that each has a ``layers.0``."""
    renumbered = [[re.sub(r"\d", "0", path) for path in stage] for stage in FOUR_STAGES]
    target, golden = stages(tmp_path / "target", renumbered), stages(tmp_path / "golden", [MODEL])
    summary = msprobe.compare(target, golden, target_parallel=sizes).summary
    assert summary.verdict == "not_comparable" and said in summary.reason, summary
    assert "layers, and the other side has 4" in summary.reason
    right = msprobe.compare(target, golden, target_parallel="pp=4").summary
    assert right.verdict != "not_comparable", right


def test_data_parallel_ranks_told_as_stages(tmp_path: Path) -> None:
    target, golden = stages(tmp_path / "target", [MODEL] * 2), stages(tmp_path / "golden", [MODEL], samples=8)
    summary = msprobe.compare(target, golden, target_parallel="pp=2").summary
    assert summary.verdict == "not_comparable"
    assert "but every pipeline stage has embedding, and together they have 8 layers" in summary.reason


def test_a_missing_layer_is_a_divergence(tmp_path: Path) -> None:
    """Both stages are those that the sizes say; one of them lacks its last layer."""
    target = stages(tmp_path / "target", [["embedding", *LAYERS[:2]], ["layers.2", "head"]])
    summary = msprobe.compare(target, stages(tmp_path / "golden", [MODEL]), target_parallel="pp=2").summary
    assert summary.verdict == "diverged" and "sizes" not in summary.reason, summary


def test_replicas_with_samples_of_their_own(tmp_path: Path) -> None:
    target = stages(tmp_path / "target", [MODEL[:3], MODEL[3:]] * 2)
    order = [0, 2, 1, 3]  # ranks count replicas before stages
    moved = tmp_path / "moved"
    for rank, origin in enumerate(order):
        shutil.copytree(target / "step0" / f"rank{origin}", moved / "step0" / f"rank{rank}")
    golden = stages(tmp_path / "golden", [MODEL], samples=8)
    summary = msprobe.compare(moved, golden, target_parallel="pp=2").summary
    assert summary.verdict == "not_comparable"
    assert "makes 2 replicas of the model, and each of them gives 32 elements to embedding" in summary.reason
    assert msprobe.compare(moved, golden, target_parallel="pp=2,dp=2").summary.verdict != "not_comparable"


def test_what_is_whole_is_compared_where_a_rank_is_missing(tmp_path: Path) -> None:
    target = stages(tmp_path / "target", [MODEL] * 4, width=4)
    shutil.rmtree(target / "step0" / "rank1")
    golden = stages(tmp_path / "golden", [MODEL] * 2)
    summary = msprobe.compare(target, golden, target_parallel="tp=2").summary
    assert any("no records of rank 1; the replicas that are whole are compared" in line for line in summary.unpaired)
    assert summary.counts.pairs > 0


@pytest.mark.parametrize(("width", "said"), [(6, "they overlap"), (3, "they leave a gap")])
def test_one_parameter_that_does_not_tile_leaves_the_rest(tmp_path: Path, width: int, said: str) -> None:
    target = stages(tmp_path / "target", [MODEL] * 2, width=4, odd={"layers.2": width})
    summary = msprobe.compare(target, stages(tmp_path / "golden", [MODEL]), target_parallel="tp=2").summary
    assert summary.verdict in ("diverged", "incomplete") and said in summary.reason, summary
    assert summary.counts.passed > 5
