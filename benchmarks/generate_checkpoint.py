"""A synthetic checkpoint in Megatron's layout, one rank, bfloat16, as large as asked.

Equal sizes and different seeds make a pair to compare: the seed adds noise of a thousandth to every second layer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HIDDEN = 1024
BYTES_PER_LAYER = 2 * 12 * HIDDEN * HIDDEN
NOISE = 1e-3


def write(folder: Path, megabytes: float, seed: int) -> Path:
    """Write the checkpoint below ``folder`` and return it."""
    import torch

    place = folder / "iter_0000010" / "mp_rank_00"
    place.mkdir(parents=True)
    (folder / "latest_checkpointed_iteration.txt").write_text("10", encoding="utf-8")
    values = torch.Generator().manual_seed(1)
    model = {}
    layers = max(1, round(megabytes * 1e6 / BYTES_PER_LAYER))
    for layer in range(layers):
        shapes = {
            "self_attention.linear_qkv": (3 * HIDDEN, HIDDEN),
            "self_attention.linear_proj": (HIDDEN, HIDDEN),
            "mlp.linear_fc1": (4 * HIDDEN, HIDDEN),
            "mlp.linear_fc2": (HIDDEN, 4 * HIDDEN),
        }
        for name, shape in shapes.items():
            weight = torch.randn(shape, generator=values) * (1 + NOISE * seed * (layer % 2))
            model[f"decoder.layers.{layer}.{name}.weight"] = weight.bfloat16()
    sizes = dict.fromkeys(
        ("tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size"), 1
    )
    arguments = argparse.Namespace(
        **sizes, num_layers=layers, num_experts=None, num_layers_per_virtual_pipeline_stage=None
    )
    document = {"model": model, "args": arguments, "iteration": 10, "checkpoint_version": 3.0}
    torch.save(document, place / "model_optim_rng.pt")
    return folder
