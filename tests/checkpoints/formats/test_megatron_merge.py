"""One model saved by jobs of many parallel layouts is one model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from msprobe.checkpoints.job import compare_checkpoints
from msprobe.checkpoints.load import read_checkpoint
from tests.checkpoints.formats.jobs import LAYERS, Job, save, whole_model

pytestmark = pytest.mark.torch

JOBS = [
    pytest.param(Job(tensor=2), id="tensor"),
    pytest.param(Job(pipeline=2), id="pipeline"),
    pytest.param(Job(pipeline=2, uneven=True), id="uneven-pipeline"),
    pytest.param(Job(pipeline=2, virtual=2), id="virtual-pipeline"),
    pytest.param(Job(tensor=2, pipeline=4, virtual=2), id="tensor-and-virtual-pipeline"),
    pytest.param(Job(tensor=2, gated=True), id="gated"),
    pytest.param(Job(pipeline=2, arguments=False), id="pipeline-without-arguments"),
    pytest.param(Job(expert=2, experts="local"), id="local-experts"),
    pytest.param(Job(expert=2, experts="local", arguments=False), id="local-experts-without-arguments"),
    pytest.param(Job(expert=4, experts="grouped"), id="grouped-experts"),
    pytest.param(Job(expert=2, experts="fused"), id="fused-experts"),
    pytest.param(Job(tensor=2, expert=2, experts="fused", gated=True), id="gated-fused-experts"),
    pytest.param(Job(tensor=2, pipeline=2, expert=2, experts="local", gated=True), id="all"),
    pytest.param(Job(tensor=2, pipeline=2, virtual=2, expert=2, experts="grouped"), id="all-virtual"),
]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_any_layout_is_the_whole_model(job: Job, tmp_path: Path) -> None:
    weights = whole_model(job.experts)
    torch.save(weights, tmp_path / "whole.pt")
    found = compare_checkpoints(tmp_path / "whole.pt", save(tmp_path / "job", weights, job))
    assert [parameter.line() for parameter in found.parameters if parameter.kind != "equal"] == []
    assert len(found.parameters) == len(weights)


def test_one_weight_that_differs_is_the_one_that_is_named(tmp_path: Path) -> None:
    weights = whole_model()
    first = save(tmp_path / "first", weights, Job(tensor=2, pipeline=2))
    name = f"decoder.layers.{LAYERS - 2}.self_attention.linear_proj.weight"
    weights[name] = weights[name] * 1.5
    found = compare_checkpoints(first, save(tmp_path / "second", weights, Job(pipeline=2, virtual=2)))
    different = [parameter for parameter in found.parameters if parameter.kind != "equal"]
    assert [parameter.name for parameter in different] == [name]
    assert different[0].similarity.cos == pytest.approx(1.0, abs=1e-4) and different[0].similarity.l2 > 0.1


def test_another_number_of_experts_is_another_shape_or_missing(tmp_path: Path) -> None:
    weights = whole_model("local")
    first = save(tmp_path / "first", weights, Job(expert=2, experts="local"))
    fewer = {name: weight for name, weight in weights.items() if "local_experts.3." not in name}
    torch.save(fewer, tmp_path / "second.pt")
    kinds = {one.name: one.kind for one in compare_checkpoints(first, tmp_path / "second.pt").parameters}
    assert [kind for name, kind in kinds.items() if "local_experts.3." in name] == ["first_only"] * 2 * LAYERS
    assert {kind for name, kind in kinds.items() if "local_experts.3." not in name} == {"equal"}


def test_copies_that_differ_are_no_pass(tmp_path: Path) -> None:
    """A norm that went its own way on one tensor-parallel rank: no merge can be right."""
    job = Job(tensor=2)
    folder = save(tmp_path / "job", whole_model(), job)
    file = folder / "iter_0000010" / "mp_rank_01" / "model_optim_rng.pt"
    document = torch.load(file, weights_only=False)
    document["model"]["decoder.final_layernorm.weight"] += 1
    torch.save(document, file)
    found = compare_checkpoints(folder, folder)
    assert not found.same
    assert [one.name for one in found.parameters if one.kind == "problem"] == ["decoder.final_layernorm.weight"]
    assert "different values" in found.document()["decoder.final_layernorm.weight"]["problem"]


def test_an_embedding_on_the_first_and_the_last_stage_is_one(tmp_path: Path) -> None:
    folder = save(tmp_path / "job", whole_model(), Job(pipeline=2))
    last = folder / "iter_0000010" / "mp_rank_00_001" / "model_optim_rng.pt"
    document = torch.load(last, weights_only=False)
    document["model"]["embedding.word_embeddings.weight"] = whole_model()["embedding.word_embeddings.weight"]
    torch.save(document, last)
    torch.save(whole_model(), tmp_path / "whole.pt")
    assert compare_checkpoints(folder, tmp_path / "whole.pt").same


def test_layers_that_have_the_numbers_of_the_whole_model_keep_them(tmp_path: Path) -> None:
    weights = whole_model()
    folder = save(tmp_path / "job", weights, Job(pipeline=2))
    last = folder / "iter_0000010" / "mp_rank_00_001" / "model_optim_rng.pt"
    document = torch.load(last, weights_only=False)
    model = {}
    for name, weight in document["model"].items():
        parts = name.split(".")
        if parts[1] == "layers":
            parts[2] = str(int(parts[2]) + LAYERS // 2)
        model[".".join(parts)] = weight
    torch.save({**document, "model": model}, last)
    assert sorted(read_checkpoint(folder).tensors) == sorted(weights)
