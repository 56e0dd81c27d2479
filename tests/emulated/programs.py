"""Programs other than a training of one process, on an emulated device: generation, and a training of two ranks.

``python -m tests.emulated.programs FOLDER RANK FAMILY PRECISION DEVICE FAULT`` is one rank of ``train_ranks``.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from msprobe.pytorch import PrecisionDebugger
from tests.emulated.device import Device
from tests.emulated.families import DTYPES, FAMILIES, OPTIMIZERS
from tests.emulated.faults import PLACED_FAULTS
from tests.fresh_debugger import forget
from tests.ranks import run_ranks

TOKENS, PROMPT = 5, 7
RANKS, STEPS = 2, 2


def _model(family: str, precision: str, fault: str) -> tuple[Any, Any]:
    forget()
    torch.manual_seed(0)
    model, loss_of = FAMILIES[family]()
    model.to(DTYPES[precision])
    if fault:
        PLACED_FAULTS[fault].plant(model)
    return model, loss_of


def generate(folder: Path, family: str, precision: str = "fp32", device: str = "", fault: str = "") -> list[int]:
    """Record greedy decoding with a cache of keys and values, one step per token. Return the tokens."""
    model, _ = _model(family, precision, fault)
    model.eval()
    token = torch.randint(2, 96, (2, PROMPT), generator=torch.Generator().manual_seed(7))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    cache, tokens = None, []
    with torch.no_grad(), Device(device) if device else contextlib.nullcontext():
        for _ in range(TOKENS):
            debugger.start(model)
            result = model(input_ids=token, past_key_values=cache, use_cache=True)
            token, cache = result.logits[:, -1:].argmax(-1), result.past_key_values
            debugger.stop()
            debugger.step()
            tokens += token.flatten().tolist()
    forget()
    return tokens


def train_ranks(folder: Path, family: str, precision: str = "fp32", device: str = "", fault: str = "") -> None:
    """Record a training of two ranks over gloo, each with data of its own; the last rank has the fault."""
    meeting = folder.parent / f"{folder.name}-meeting"
    run_ranks(__spec__.name, RANKS, lambda rank: [folder, meeting, rank, family, precision, device, fault])


def _train_rank(folder: Path, meeting: str, rank: int, family: str, precision: str, device: str, fault: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    model, loss_of = _model(family, precision, fault if rank == RANKS - 1 else "")
    parallel = DistributedDataParallel(model)
    update = OPTIMIZERS["adamw"](parallel.parameters())
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with Device(device) if device else contextlib.nullcontext():
        for step in range(STEPS):
            debugger.start(parallel)
            update.zero_grad()
            loss_of(parallel, RANKS * step + rank).backward()
            update.step()
            debugger.stop()
            debugger.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    _train_rank(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
