"""Trains the byte transformer for a few steps and records every step with msprobe.

    python train.py --out run_good
    python train.py --out run_bad --fault attention-scale

Both runs start from the same seed and read the same text, so they differ in the planted fault only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from faults import FAULTS
from model import ByteTransformer, Shape
from torch import Tensor

from msprobe.pytorch import PrecisionDebugger, seed_all

HERE = Path(__file__).resolve().parent
SEED = 1234
BATCH = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a byte-level transformer and record it with msprobe.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the dump")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="plant this fault")
    parser.add_argument("--steps", type=int, default=2, help="training steps (default 2)")
    parser.add_argument("--config", type=Path, default=HERE / "config.json", help="msprobe configuration")
    parser.add_argument("--text", type=Path, default=HERE.parents[1] / "LICENSE", help="text to learn")
    return parser.parse_args()


def batches(text: bytes, context: int) -> Iterator[Tensor]:
    """Endless (BATCH, context + 1) windows of the text, at places drawn with torch's generator."""
    data = torch.tensor(list(text), dtype=torch.int64)
    while True:
        starts = torch.randint(len(data) - context - 1, (BATCH,)).tolist()
        yield torch.stack([data[start : start + context + 1] for start in starts])


def main() -> None:
    options = arguments()
    seed_all(SEED, mode=True)
    debugger = PrecisionDebugger(config_path=str(options.config), dump_path=str(options.out))

    shape = Shape()
    model = ByteTransformer(shape)
    if options.fault:
        fault = FAULTS[options.fault]
        setattr(model.get_submodule(fault.module), fault.attribute, fault.value)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    source = batches(options.text.read_bytes(), shape.context)
    for step in range(options.steps):
        text = next(source)
        debugger.start(model)
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
