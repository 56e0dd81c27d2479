"""What recording every node of an ONNX model costs: ratios to a plain run of onnxruntime, session included.

python benchmarks/model_files.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from msprobe.offline_models.model_file import read_model
from msprobe.offline_models.recorded_model import RecordingPlan, record_model
from msprobe.offline_models.session import run_plain

_REPEATS = 3


class Block(nn.Module):
    """A norm and a perceptron around a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x and what the block adds to it."""
        added: torch.Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x + added


def best(function: Callable[[], object]) -> float:
    """Return the shortest of some runs, in seconds."""
    times = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=512)
    width = parser.parse_args().width
    warnings.filterwarnings("ignore")
    model, x = nn.Sequential(*[Block(width) for _ in range(6)]).eval(), torch.randn(8, 128, width)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=False, input_names=["x"])
        file, inputs = read_model(folder / "model.onnx"), {"x": x.numpy()}
        plain = best(lambda: run_plain(file, inputs))
        print(f"plain run: {plain:.3f} s")
        for task in ("statistics", "tensor"):
            plan = RecordingPlan(task=task)
            seconds = best(lambda plan=plan: record_model(file, inputs, folder / plan.task, 0, plan))  # type: ignore[misc]
            print(f"{task}: {seconds:.3f} s, ratio {seconds / plain:.2f}")


if __name__ == "__main__":
    main()
