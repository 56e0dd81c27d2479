"""Time ``msprobe check`` of many steps and ranks: ``python benchmarks/check.py [STEPS RANKS ENTRIES]``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def tensor(numbers: random.Random, *shape: int, needs: bool = True) -> dict[str, Any]:
    """Return the node of a tensor."""
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        "Max": numbers.uniform(2, 3),
        "Min": -numbers.uniform(2, 3),
        "Mean": numbers.gauss(0, 0.1),
        "Norm": numbers.uniform(100, 200),
        "Projection": numbers.gauss(0, 10),
        "requires_grad": needs,
    }


def write(folder: Path, step: int, rank: int, entries: int) -> None:
    """Write one document: layers with a function each, their backward calls and the gradients of their parameters."""
    numbers, weights = random.Random(step * 1000 + rank), random.Random(step)
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    names = [f"layers.{number}.fc" for number in range(entries // 5)]
    parameters = {name: tensor(weights, 64, 64) for name in names}
    hidden = tensor(numbers, 8, 64)
    for number, name in enumerate(names):
        result, module, function = (
            tensor(numbers, 8, 64),
            f"Module.{name}.Linear.forward.0",
            f"Functional.linear.{number}",
        )
        data[f"{function}.forward"] = {
            "input_args": [hidden, parameters[name], None],
            "input_kwargs": {},
            "output": [result],
        }
        data[module] = {
            "input_args": [hidden], "input_kwargs": {}, "training": True, "autograd": "grad", "output": [result],
            "parameters": {"weight": parameters[name]},
        }  # fmt: skip
        construct[f"{function}.forward"] = module
        construct[module] = None
        hidden = result
    for number, name in reversed(list(enumerate(names))):
        gradient = tensor(numbers, 8, 64, needs=False)
        data[f"Functional.linear.{number}.backward"] = {"input": [gradient], "output": [gradient, None, None]}
        data[f"Module.{name}.Linear.backward.0"] = {"input": [gradient], "output": [gradient]}
        data[f"Module.{name}.Linear.parameters_grad.0"] = {"weight": [tensor(numbers, 64, 64, needs=False)]}
    held = [f"{name}.weight" for name in names]
    gradients = [{"name": name, "value": tensor(weights, 64, 64, needs=False)} for name in held]
    document = {
        "task": "statistics", "level": "mix", "framework": "pytorch",
        "optimizers": [{"optimizer": 0, "class": "AdamW", "stack": [], "groups": [{"lr": 1e-3, "parameters": held}]}],
        "training_calls": [
            {"call": "zero_grad", "after": 0}, {"call": "backward", "after": 1},
            {"call": "optimizer_step", "after": 2, "optimizer": 0, "gradients": gradients, "no_gradient": []},
        ],
        "model_parameters": [{"name": name, "value": tensor(weights, 64, 64), "has_gradient": True} for name in held],
        "data": data,
    }  # fmt: skip
    place = folder / f"step{step}" / f"rank{rank}"
    place.mkdir(parents=True)
    (place / "dump.json").write_text(json.dumps(document))
    (place / "construct.json").write_text(json.dumps(construct))


def main(steps: int = 10, ranks: int = 4, entries: int = 2000) -> None:
    """Write the dumps, and time the command three times."""
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            for rank in range(ranks):
                write(Path(folder, "dump"), step, rank, entries)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.json"))
        print(f"{steps} steps x {ranks} ranks x {entries} entries, {size / 1e6:.0f} MB")
        for _ in range(3):
            begin = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "msprobe", "check", f"{folder}/dump"], capture_output=True, text=True, check=True
            )
            print(f"{time.perf_counter() - begin:.2f} s: {done.stdout.splitlines()[0]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
