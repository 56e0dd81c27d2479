"""A small model with the weight names of Megatron Core, and its checkpoint as a job of any parallel layout saves it."""

from __future__ import annotations

import argparse
import enum
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

LAYERS, HIDDEN, FFN, VOCABULARY, EXPERTS = 8, 4, 8, 12, 4
FUSED_NORM = "self_attention.linear_qkv.layer_norm_"
"""A training with TransformerEngine stores the norm before the attention under this name."""
Weights = dict[str, torch.Tensor]


class ModelKind(enum.Enum):
    """Stands for the enumerations that a training keeps in its arguments."""

    decoder = 1


@dataclass(frozen=True)
class Job:
    """Sizes of a job. ``experts`` is the form of the experts' weights: none, local, grouped or fused."""

    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    expert: int = 1
    experts: str = "none"
    gated: bool = False
    arguments: bool = True
    uneven: bool = False

    @property
    def layers_of_stage(self) -> list[int]:
        """Layers of each virtual stage, in the order in which data flows."""
        stages = self.pipeline * self.virtual
        counts = [LAYERS // stages] * stages
        if self.uneven:
            counts[0], counts[-1] = counts[0] - 1, counts[-1] + 1
        return counts


def whole_model(experts: str = "none", seed: int = 0) -> Weights:
    """All weights of the model."""
    torch.manual_seed(seed)
    found = {"embedding.word_embeddings.weight": torch.randn(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        head = f"decoder.layers.{layer}."
        found[f"{head}self_attention.linear_qkv.weight"] = torch.randn(3 * HIDDEN, HIDDEN)
        found[f"{head}self_attention.linear_qkv.bias"] = torch.randn(3 * HIDDEN)
        found[f"{head}input_layernorm.weight"] = torch.randn(HIDDEN)
        found[f"{head}self_attention.linear_proj.weight"] = torch.randn(HIDDEN, HIDDEN).bfloat16()
        found[f"{head}self_attention.linear_proj.bias"] = torch.randn(HIDDEN)
        found.update(_mlp(f"{head}mlp.", experts))
    found["decoder.final_layernorm.weight"] = torch.randn(HIDDEN)
    found["output_layer.weight"] = torch.randn(VOCABULARY, HIDDEN)
    return found


def _mlp(head: str, experts: str) -> Weights:
    if experts == "none":
        return {
            f"{head}linear_fc1.weight": torch.randn(2 * FFN, HIDDEN),
            f"{head}linear_fc1.bias": torch.randn(2 * FFN),
            f"{head}linear_fc2.weight": torch.randn(HIDDEN, FFN),
        }
    found = {f"{head}router.weight": torch.randn(EXPERTS, HIDDEN)}
    first = [torch.randn(2 * FFN, HIDDEN) for _ in range(EXPERTS)]
    second = [torch.randn(HIDDEN, FFN) for _ in range(EXPERTS)]
    for number in range(EXPERTS):
        if experts == "local":
            found[f"{head}experts.local_experts.{number}.linear_fc1.weight"] = first[number]
            found[f"{head}experts.local_experts.{number}.linear_fc2.weight"] = second[number]
        elif experts == "grouped":
            found[f"{head}experts.linear_fc1.weight{number}"] = first[number]
            found[f"{head}experts.linear_fc2.weight{number}"] = second[number]
    if experts == "fused":
        found[f"{head}experts.weight1"] = torch.stack([part.T for part in first]).reshape(HIDDEN, -1)
        found[f"{head}experts.weight2"] = torch.stack([part.T for part in second]).reshape(-1, HIDDEN)
    return found


def save(folder: Path, weights: Weights, job: Job, iteration: int = 10) -> Path:
    """Write the checkpoint of a job below ``folder``."""
    (folder / f"iter_{iteration:07d}").mkdir(parents=True)
    (folder / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    for tensor in range(job.tensor):
        for pipeline in range(job.pipeline):
            for expert in range(job.expert):
                name = f"mp_rank_{tensor:02d}"
                name += f"_{pipeline:03d}" if job.pipeline > 1 else ""
                name += f"_{expert:03d}" if job.expert > 1 else ""
                place = folder / f"iter_{iteration:07d}" / name
                place.mkdir()
                chunks = [
                    _part(weights, job, (tensor, chunk * job.pipeline + pipeline, expert))
                    for chunk in range(job.virtual)
                ]
                torch.save(_document(chunks, job), place / "model_optim_rng.pt")
    return folder


def _document(chunks: list[Weights], job: Job) -> dict[str, Any]:
    """What a training stores beside the weights, objects of its own classes too."""
    arguments = argparse.Namespace(
        tensor_model_parallel_size=job.tensor,
        pipeline_model_parallel_size=job.pipeline,
        expert_model_parallel_size=job.expert,
        num_experts=None if job.experts == "none" else EXPERTS,
        swiglu=job.gated,
        params_dtype=torch.bfloat16,
        kind=ModelKind.decoder,
        activation=torch.nn.functional.silu,
        data_path=Path("data"),
    )
    state = {"random": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    models = (
        {"model": chunks[0]} if len(chunks) == 1 else {f"model{number}": part for number, part in enumerate(chunks)}
    )
    document = {"checkpoint_version": 3.0, "iteration": 10, **models, "rng_state": [state], "opt_param_scheduler": {}}
    return {"args": arguments, **document} if job.arguments else document


def _part(weights: Weights, job: Job, place: tuple[int, int, int]) -> Weights:
    tensor, stage, expert = place
    counts = job.layers_of_stage
    first = sum(counts[:stage])
    found: Weights = {}
    for name, weight in weights.items():
        parts = name.split(".")
        if parts[1] == "layers":
            if not first <= int(parts[2]) < first + counts[stage]:
                continue
            parts[2] = str(int(parts[2]) - first)
        elif (name.startswith("embedding") and stage) or (
            not name.startswith("embedding") and stage != len(counts) - 1
        ):
            continue
        local = _expert_part(parts, weight, job, expert)
        if local is not None:
            found[local[0].replace("input_layernorm.", FUSED_NORM)] = _shard(local[0], local[1], job, tensor).clone()
    return found


def _expert_part(parts: list[str], weight: torch.Tensor, job: Job, expert: int) -> tuple[str, torch.Tensor] | None:
    """Name and weight on one expert rank; None where another rank holds it."""
    per_rank = EXPERTS // job.expert
    if "local_experts" in parts:
        place = parts.index("local_experts") + 1
        number = int(parts[place])
        parts[place] = str(number % per_rank)
    elif "experts" in parts and parts[-2].startswith("linear_fc"):
        number = int(parts[-1].removeprefix("weight"))
        parts[-1] = f"weight{number % per_rank}"
    elif parts[-1] in ("weight1", "weight2"):
        axis = 1 if parts[-1] == "weight1" else 0
        stacked = weight.reshape(EXPERTS, HIDDEN, -1) if axis else weight.reshape(EXPERTS, -1, HIDDEN)
        mine = stacked[expert * per_rank : (expert + 1) * per_rank]
        return ".".join(parts), mine.reshape(HIDDEN, -1) if axis else mine.reshape(-1, HIDDEN)
    else:
        return ".".join(parts), weight
    return (".".join(parts), weight) if number // per_rank == expert else None


def _shard(name: str, weight: torch.Tensor, job: Job, tensor: int) -> torch.Tensor:
    """The slice of one tensor-parallel rank, written down by hand and not by the rules under test."""
    if name.endswith(("experts.weight1", "experts.weight2")):
        return _fused_shard(name, weight, job, tensor)
    if "linear_fc1" in name and job.gated:
        gate, up = weight.chunk(2)
        return torch.cat([gate.chunk(job.tensor)[tensor], up.chunk(job.tensor)[tensor]])
    if any(word in name for word in ("linear_qkv", "linear_fc1", "word_embeddings", "output_layer")):
        return weight.chunk(job.tensor, 0)[tensor]
    if name.endswith("linear_proj.weight") or "linear_fc2.weight" in name:
        return weight.chunk(job.tensor, 1)[tensor]
    return weight


def _fused_shard(name: str, weight: torch.Tensor, job: Job, tensor: int) -> torch.Tensor:
    per_rank = EXPERTS // job.expert
    if name.endswith("weight2"):
        return weight.reshape(per_rank, -1, HIDDEN).chunk(job.tensor, 1)[tensor].reshape(-1, HIDDEN)
    stacked = weight.reshape(per_rank, HIDDEN, -1)
    if not job.gated:
        return stacked.chunk(job.tensor, 2)[tensor].reshape(HIDDEN, -1)
    halves = [half.chunk(job.tensor, 2)[tensor] for half in stacked.chunk(2, 2)]
    return torch.cat(halves, 2).reshape(HIDDEN, -1)
