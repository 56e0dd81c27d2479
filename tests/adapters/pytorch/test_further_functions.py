"""Functions that make numbers, and that no list of the reference names, leave records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from msprobe.adapters.pytorch.recorded_names import read_names
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch
F = torch.nn.functional
X = torch.arange(1.0, 17.0).view(4, 4)
SQUARE = X @ X.T + 20 * torch.eye(4)
INDEX = torch.zeros(4, 4, dtype=torch.long)


def divide_in_place() -> torch.Tensor:
    x = X.clone()
    x /= 3
    return x


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Functional.rms_norm", lambda: F.rms_norm(X, (4,))),
        ("Torch.rfft", lambda: torch.fft.rfft(X)),
        ("Torch.eigvalsh", lambda: torch.linalg.eigvalsh(SQUARE)),
        ("Torch.solve_triangular", lambda: torch.linalg.solve_triangular(SQUARE, X, upper=True)),
        ("Torch.expit", lambda: torch.special.expit(X)),
        ("Tensor.scatter_reduce", lambda: X.scatter_reduce(0, INDEX, X, "sum")),
        ("Tensor.__abs__", lambda: abs(X)),
        ("Tensor.__itruediv__", divide_in_place),
    ],
)
def test_a_function_that_makes_numbers_is_recorded(tmp_path: Path, name: str, call: Callable[[], torch.Tensor]) -> None:
    forget()
    torch.manual_seed(0)
    debugger = PrecisionDebugger({"dump_path": str(tmp_path), "level": "L1", "task": "statistics"})
    with debugger.collect():
        result = call()
    forget()
    (document,) = tmp_path.glob("step0/*/dump.json")
    record = json.loads(document.read_text(encoding="utf-8"))["data"][f"{name}.0.forward"]
    assert record["output"][0]["Max"] == pytest.approx(
        float(result.abs().max() if result.is_complex() else result.max())
    )


def test_every_further_function_exists() -> None:
    owners = {"Functional": F, "Tensor": torch.Tensor, "Torch": torch, "VF": torch._VF}
    lacking = []
    for prefix, names in read_names()["extra"].items():
        for name in names:
            owner = owners[prefix]
            for part in name.split("."):
                owner = getattr(owner, part, None)
            lacking += [] if callable(owner) else [name]
    assert lacking == []
