"""One rank of a training in a layout that torch or transformers make.

``python -m tests.torch_layouts.job KIND RANK SIZE FOLDER [FAULT]`` records two steps of it below FOLDER.

All kinds of one family begin with the same parameters and train the same samples. ``plain``, ``llama`` and ``qwen2``
run on one process. FAULT is ``weight``, which changes what the last rank holds of a weight of layer 1;
``activation``, another function in the feed-forward part of layer 1 on all ranks; of ``zero1`` also
``rate`` and ``decay``, another learning rate or weight decay on the last rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from msprobe.pytorch import PrecisionDebugger
from tests.torch_layouts.model import Model, loss_of, samples

STEPS = 2


def tensor_parallel(model: Model, sequence: bool, mesh: Any) -> None:
    """Cut the layers as the documentation of torch does, with sequence parallelism for the norms or without."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan: dict[str, Any] = {}
    for index in model.layers:
        at = f"layers.{index}"
        out = RowwiseParallel(output_layouts=Shard(1)) if sequence else RowwiseParallel()
        plan |= {f"{at}.attention.{name}": ColwiseParallel() for name in ("q", "k", "v")}
        plan |= {f"{at}.mlp.up": ColwiseParallel(), f"{at}.attention.out": out, f"{at}.mlp.down": out}
        if sequence:
            whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
            plan |= {f"{at}.norm1": SequenceParallel(), f"{at}.norm2": SequenceParallel()}
            plan |= {f"{at}.attention": whole, f"{at}.mlp": whole}
    if sequence:
        plan |= {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))}
        plan["norm"] = SequenceParallel()
        plan["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(model, mesh, plan)


def shard_fully(model: nn.Module, mesh: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers.values():  # type: ignore[union-attr, operator]
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def pretrained(kind: str, rank: int, size: int, folder: Path) -> nn.Module:
    """Return a small language model of transformers, cut by its own plan where there are several ranks."""
    import transformers

    names = {"llama": "Llama", "qwen2": "Qwen2"}
    config = getattr(transformers, f"{names[kind]}Config")(
        vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=False,
    )  # fmt: skip
    cls = getattr(transformers, f"{names[kind]}ForCausalLM")
    torch.manual_seed(0)
    if size == 1:
        return cls(config)
    saved = folder.parent / "saved"
    if rank == 0:
        cls(config).save_pretrained(saved)
    dist.barrier()
    return cls.from_pretrained(saved, tp_plan="auto", dtype=torch.float32).train()


def build(kind: str, rank: int, size: int, folder: Path) -> nn.Module:
    if kind in ("llama", "qwen2"):
        return pretrained(kind, rank, size, folder)
    torch.manual_seed(0)
    model = Model()
    if kind in ("tensor", "sequence"):
        tensor_parallel(model, kind == "sequence", init_device_mesh("cpu", (size,)))
    elif kind == "sharded":
        shard_fully(model, init_device_mesh("cpu", (size,)))
    elif kind == "hybrid":
        shard_fully(model, init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("replicate", "shard")))
    elif kind == "tensor_sharded":
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        tensor_parallel(model, False, mesh["tp"])
        shard_fully(model, mesh["dp"])
    elif kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    return model


def plant(model: nn.Module, fault: str, last: bool) -> None:
    layer = getattr(model, "module", model)
    layers = getattr(layer, "model", layer).layers
    layer = layers[1] if isinstance(layers, nn.ModuleList) else layers["1"]
    if fault == "activation":
        setattr(layer.mlp, "act" if hasattr(layer.mlp, "act") else "act_fn", nn.Tanh())
    elif fault == "weight" and last:
        weight = (layer.mlp.down if hasattr(layer.mlp, "down") else layer.mlp.down_proj).weight
        with torch.no_grad():
            getattr(weight, "to_local", lambda: weight)()[1] *= 1.5


def data_parallel(kind: str, rank: int, size: int) -> tuple[int, int]:
    """Return the number of this rank among those with samples of their own, and how many there are."""
    if kind in ("sharded", "hybrid", "ddp", "zero1"):
        return rank, size
    return (rank // 2, size // 2) if kind == "tensor_sharded" else (0, 1)


def optimizer_of(kind: str, model: nn.Module) -> torch.optim.Optimizer:
    if kind == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    return torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)


def train(kind: str, rank: int, size: int, folder: Path, fault: str) -> None:
    model = build("ddp" if kind == "zero1" else kind, rank, size, folder)
    plant(model, fault, rank == size - 1)
    optimizer = optimizer_of(kind, model)
    if rank == size - 1 and fault in ("rate", "decay"):
        optimizer.param_groups[0]["lr" if fault == "rate" else "weight_decay"] *= 3.0 if fault == "rate" else 60.0
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    number, count = data_parallel(kind, rank, size)
    for step in range(STEPS):
        tokens, labels = (each.chunk(count)[number] for each in samples(step))
        debugger.start(model, rank_id=rank)
        loss_of(model, tokens, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


def train_stages(schedule: str, rank: int, size: int, folder: Path, fault: str) -> None:
    from torch.distributed import pipelining

    torch.manual_seed(0)
    model = Model()
    plant(model, fault if fault == "activation" else "", last=False)
    part = model.stage(rank, size)
    if fault == "weight" and rank == size - 1:
        plant(part, fault, last=True)
    stage = pipelining.PipelineStage(part, rank, size, torch.device("cpu"))
    run = getattr(pipelining, schedule)(stage, n_microbatches=2, loss_fn=loss_of_logits)
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    optimizer = optimizer_of("plain", part)
    for step in range(STEPS):
        tokens, labels = samples(step)
        debugger.start(part, rank_id=rank)
        run.step(tokens) if rank == 0 else run.step(target=labels)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


def loss_of_logits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main(kind: str, rank: int, size: int, folder: Path, fault: str) -> None:
    if size > 1:
        store = f"file://{folder.parent / (folder.name + '.store')}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    if kind.startswith("Schedule"):
        train_stages(kind, rank, size, folder, fault)
    else:
        train(kind, rank, size, folder, fault)
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "")
