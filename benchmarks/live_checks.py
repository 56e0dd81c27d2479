"""What the tasks that run calls again cost: time of a step and memory, as ratios to the same step without the tool.

python benchmarks/live_checks.py [--steps N] [--task online_check]

free_benchmark: one step for each mode, forward. online_check: N steps with the default sampling, all of them together.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Step = Callable[[], None]
RESULT = "result: "
MODES = ("improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu")


def llama() -> Step:
    """Return a step of a small llama in bfloat16 with AdamW."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    tokens = torch.randint(0, 2000, (2, 256))
    return _training(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def convolutions() -> Step:
    """Return a step of a convolutional network in float32."""
    layers: list[torch.nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [
            torch.nn.Conv2d(before, after, 3, padding=1),
            torch.nn.BatchNorm2d(after),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        ]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(128 * 64, 10))
    images, labels = torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))
    return _training(model, lambda: torch.nn.functional.cross_entropy(model(images), labels))


def encoder() -> Step:
    """Return a step of a transformer encoder in float32 with dropout."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4)
    batch = torch.randn(8, 128, 256)
    return _training(model, lambda: model(batch).square().mean())


MODELS = {"llama bf16": llama, "convolutions fp32": convolutions, "encoder fp32": encoder}


def _training(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def measure(model: str, settings: dict[str, Any] | None, steps: int) -> tuple[float, float, int]:
    """Return seconds for a step, MiB at the most, and findings; in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        whole = None if settings is None else {**settings, "dump_path": folder}
        command = [sys.executable, __file__, "--one", json.dumps([model, whole, steps])]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        table = Path(folder) / "free_benchmark.csv"
        findings = len(table.read_text().splitlines()) - 1 if table.exists() else 0
    seconds, memory = json.loads(next(line[len(RESULT) :] for line in text.splitlines() if line.startswith(RESULT)))
    return seconds, memory, findings


def run_one(model: str, settings: dict[str, Any] | None, steps: int) -> None:
    """Print the time and the memory that ``measure`` returns."""
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(0)
    torch.set_num_threads(2)
    step = MODELS[model]()
    for _ in range(3):
        step()
    debugger = None if settings is None else PrecisionDebugger(settings)
    begin = time.perf_counter()
    for _ in range(steps):
        if debugger is not None:
            debugger.start()
        step()
        if debugger is not None:
            debugger.stop()
            debugger.step()
    seconds = (time.perf_counter() - begin) / steps
    print(f"{RESULT}{json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])}")


def main() -> None:
    """Print a line for each model and setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--task", choices=("free_benchmark", "online_check"), default="free_benchmark")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        run_one(*json.loads(options.one))
        return
    for model in MODELS:
        if options.task == "online_check":
            plain, _, _ = measure(model, None, options.steps)
            seconds, _, _ = measure(model, {"task": "online_check"}, options.steps)
            print(f"{model}: online_check, {options.steps} steps: time {seconds / plain:.3f}")
            continue
        plain, memory, _ = measure(model, None, 5)
        for policy in ("default", "reference"):
            for mode in MODES:
                section = {"pert_mode": mode, "policy": policy, "fuzz_device": "cpu" if mode == "to_cpu" else "npu"}
                found = measure(model, {"task": "free_benchmark", "free_benchmark": section}, 1)
                ratios = f"time {found[0] / plain:.1f}, memory {found[1] / memory:.2f}, {found[2]} lines"
                print(f"{model}: {policy} {mode}: {ratios}", flush=True)


if __name__ == "__main__":
    main()
