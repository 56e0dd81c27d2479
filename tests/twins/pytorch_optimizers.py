"""Optimizers of PyTorch: ``python -m tests.twins.pytorch_optimizers FOLDER NAME...``.

Records three steps of a small model below ``FOLDER/pytorch/LEVEL/NAME/VARIANT``; weights as in ``pytorch_layers``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from tests.twins.kinds import CLEAN, CODE, OPTIMIZERS, STEPS, kinds, training_data
from tests.twins.pytorch_recording import record_steps, run


def _record(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    correct = nn.Sequential(nn.Linear(8, 6), nn.Sigmoid(), nn.Linear(6, 3))
    weights = {key: value.detach().numpy().copy() for key, value in correct.named_parameters()}
    np.savez(folder / "weights" / f"{name}.npz", **weights)
    given, wanted = map(torch.tensor, training_data())
    for level in ("L0", "mix"):
        for variant in (CLEAN, CODE):
            model = nn.Sequential(nn.Linear(8, 6), nn.Sigmoid(), nn.Linear(6, 3))
            model.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
            expression = kinds(OPTIMIZERS)[name].expression("pytorch", variant)
            optimizer = eval(expression, {"torch": torch, "parameters": model.parameters()})

            def step(model: nn.Module = model, optimizer: torch.optim.Optimizer = optimizer) -> None:
                optimizer.zero_grad()
                ((model(given) - wanted) ** 2).mean().backward()
                optimizer.step()

            record_steps(folder / "pytorch" / level / name / variant, level, model, step, STEPS)


if __name__ == "__main__":
    run(_record)
