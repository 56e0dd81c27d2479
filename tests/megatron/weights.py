"""Parameters that follow from their name in the whole model, so every layout starts with the same ones."""

from __future__ import annotations

import re
import zlib
from typing import Any

import torch
from megatron.core import parallel_state

from tests.megatron.layouts import EXPERTS, LAYERS, Layout

_LAYER = re.compile(r"(?<=layers\.)\d+")
_EXPERT = re.compile(r"(?<=local_experts\.)\d+")
_TIED = "output_layer.weight"
Cut = tuple[str, int, int, int]
"""The name of a parameter in the whole model; axis, number and count of the parts."""


def fill(model: torch.nn.Module, layout: Layout) -> dict[str, Cut]:
    """Fill the parameters of a rank; return what each of them is a part of, by its name there."""
    cuts = {}
    rank, size = parallel_state.get_tensor_model_parallel_rank(), layout.tp
    for name, each in model.named_parameters():
        whole, marked = _name_in_whole(name, layout), _marks(each)
        parts, axis = (size, marked["dim"]) if marked["cut"] else (1, 0)
        shape = list(each.shape)
        shape[axis] *= parts
        source = torch.Generator().manual_seed(zlib.crc32(whole.encode()))
        norm = "norm" in whole and whole.endswith("weight")
        value = torch.randn(shape, generator=source) * 0.2 + (1.0 if norm else 0.0)
        with torch.no_grad():
            each.copy_(value.chunk(parts, axis)[rank if parts > 1 else 0])
        cuts[name] = (whole, axis, rank if parts > 1 else 0, parts)
    return cuts


def _marks(parameter: Any) -> dict[str, Any]:
    return {
        "cut": getattr(parameter, "tensor_model_parallel", False),
        "dim": getattr(parameter, "partition_dim", 0),
    }


def _name_in_whole(name: str, layout: Layout) -> str:
    name = name.removeprefix("module.")
    stage = parallel_state.get_pipeline_model_parallel_rank()
    expert = parallel_state.get_expert_model_parallel_rank()
    name = _LAYER.sub(lambda found: str(int(found[0]) + stage * (LAYERS // layout.pp)), name)
    name = _EXPERT.sub(lambda found: str(int(found[0]) + expert * (EXPERTS // layout.ep)), name)
    if layout.tied and name == _TIED:
        return "embedding.word_embeddings.weight"
    return name
