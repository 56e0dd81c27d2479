"""A PyTorch transformer and its MindSpore twin with the same weights, compared without any mapping file."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.layer_inference.twin_recordings import FAULT, record_twins
from tests.recordings import Recordings

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(recordings: Recordings) -> Path:
    return recordings(record_twins)


@pytest.mark.parametrize("sides", [("twin", "pytorch"), ("pytorch", "twin")], ids="-".join)
def test_the_twins_agree(folder: Path, sides: tuple[str, str]) -> None:
    target, golden = sides
    result = msprobe.compare(folder / target, folder / golden)
    assert result.verdict == "same", result.summary
    assert result.summary.counts.passed == result.summary.counts.pairs > 400


@pytest.mark.parametrize("sides", [("twin", "pytorch"), ("pytorch", "twin")], ids="-".join)
def test_the_written_map_gives_the_same_pairs(folder: Path, tmp_path: Path, sides: tuple[str, str]) -> None:
    paths = [folder / side for side in sides]
    inferred = msprobe.compare(*paths, output=tmp_path)
    (written,) = tmp_path.glob("layer_mapping_*.yaml")
    given = msprobe.compare(*paths, layer_mapping=written)
    first, second = ([(row.target, row.golden, row.level) for row in result.rows()] for result in (inferred, given))
    assert sorted(first) == sorted(second)
    pairs = {(ours.rpartition(".")[0], theirs.rpartition(".")[0]) for ours, theirs, _ in first if "N/A" not in theirs}
    assert any("Primitive.layer_norm.LayerNorm.0.backward" in name for pair in pairs for name in pair)


def test_every_layer_has_its_twin(folder: Path) -> None:
    from msprobe.compare.layer_inference.infer import infer_layer_map
    from tests.compare.layer_inference.twin_names import twin_path

    target, golden = (load_dump(find_dumps(folder / name)[0]) for name in ("twin", "pytorch"))
    found = infer_layer_map(target, golden)
    assert len(found.pairs) == 3 * 12 + 3
    assert all(pair.target == twin_path(pair.golden) for pair in found.pairs)
    assert not found.target_only and not found.golden_only and not found.fused
    assert min(pair.confidence for pair in found.pairs) > 0.75
    names = dict(found.by_target["blocks.0.layernorm1"].parameters)
    assert names == {"gamma": "weight", "beta": "bias"}


@pytest.mark.parametrize("sides", [("faulty", "pytorch"), ("pytorch", "faulty")], ids="-".join)
def test_the_faulty_layer_is_named(folder: Path, sides: tuple[str, str]) -> None:
    target, golden = sides
    found = msprobe.compare(folder / target, folder / golden).summary.first_divergence
    assert found is not None
    names = {"faulty": f"Cell.{FAULT}.Dense.forward.0", "pytorch": "Module.layers.1.attn.k_proj.Linear.forward.0"}
    assert (found.target, found.golden) == (names[target], names[golden])
    assert found.slot == "parameters.weight"
