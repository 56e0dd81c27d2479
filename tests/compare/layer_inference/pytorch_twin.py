"""The PyTorch side: ``python -m tests.compare.layer_inference.pytorch_twin WEIGHTS.npz FOLDER`` saves weights, dump."""

from __future__ import annotations

import sys

import numpy as np
import torch

from msprobe.pytorch import PrecisionDebugger
from tests.compare.layer_inference.transformers import Transformer, run


def main(weights: str, folder: str) -> None:
    torch.manual_seed(0)
    model = Transformer()
    np.savez(weights, **{name: value.numpy() for name, value in model.state_dict().items()})
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": folder})
    debugger.start(model)
    run(model)
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
