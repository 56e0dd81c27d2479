"""``seed_all`` and ``random_save``: what is fixed, and where randomness comes from."""

from __future__ import annotations

import csv
import io
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    dropouts = {name: getattr(F, name) for name in ("dropout", "dropout2d", "dropout3d")}
    yield
    seed_all()
    torch.use_deterministic_algorithms(False)
    for name, function in dropouts.items():
        setattr(F, name, function)


def seed_all(*args: Any, **kwargs: Any) -> None:
    from msprobe.pytorch import seed_all as seed

    seed(*args, **kwargs)


DRAWS: dict[str, Callable[[], Any]] = {
    "python": random.random,
    "python choice": lambda: random.choice(range(10**6)),
    "numpy": lambda: np.random.rand(3).tolist(),
    "torch": lambda: torch.randn(3).tolist(),
    "tensor": lambda: torch.empty(3).uniform_().tolist(),
    "functional": lambda: F.dropout(torch.ones(64)).tolist(),
    "module": lambda: torch.nn.Dropout(0.5)(torch.ones(64)).tolist(),
    "feature dropout": lambda: F.dropout2d(torch.ones(1, 64, 1, 1)).flatten().tolist(),
    "attention": lambda: F.scaled_dot_product_attention(*[torch.ones(1, 1, 8, 4)] * 3, dropout_p=0.5).tolist(),
    "initialisation": lambda: torch.nn.Linear(3, 3).weight.tolist(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_seed_repeats_a_program_and_calls_in_it_differ(draw: Callable[[], Any]) -> None:
    seed_all(7)
    first = [draw(), draw()]
    seed_all(7)
    assert [draw(), draw()] == first
    assert first[0] != first[1]


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_enhanced_every_call_returns_the_same(draw: Callable[[], Any]) -> None:
    seed_all(7, is_enhanced=True)
    first = draw()
    torch.rand(5)
    random.random()
    assert draw() == first
    seed_all(7)
    assert draw() != draw()


def test_mode_asks_for_deterministic_operators() -> None:
    seed_all(mode=True)
    assert torch.are_deterministic_algorithms_enabled()
    seed_all(mode=False)
    assert not torch.are_deterministic_algorithms_enabled()


def test_without_dropout_values_pass_even_in_modules_made_before() -> None:
    layer = torch.nn.Dropout2d(0.9)
    seed_all(rm_dropout=True)
    x = torch.rand(2, 8, 3, 3)
    assert torch.equal(layer(x), x)
    assert torch.equal(F.dropout(x, 0.9), x)


def test_torch_itself_says_which_operators_are_random() -> None:
    from msprobe.adapters.pytorch.random_sources import tagged_operators

    found = tagged_operators()
    assert {"randn", "bernoulli", "dropout", "uniform_", "multinomial", "randperm"} <= found
    assert not found & {"add", "zeros", "relu", "manual_seed"}


PROGRAM = """
import random
import torch
from msprobe.pytorch import random_save
random_save("out")
random_save("elsewhere")
torch.randn(2)
torch.randn(2)
random.random()
torch.nn.functional.dropout(torch.ones(3))
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 2)] * 3)
torch.nn.init.normal_(torch.empty(2))
"""


def test_random_save_lists_every_call_with_its_stack(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (table,) = (tmp_path / "out").glob("random_proc*_*.csv")
    assert not (tmp_path / "elsewhere").exists()
    rows = list(csv.reader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    assert rows[0] == ["api_name", "stack"]
    assert [row[0] for row in rows[1:]] == [
        "torch_random.randn.0",
        "torch_random.randn.1",
        "python_random.random.0",
        "functional_random.dropout.0",
        "tensor_random.normal_.0",
    ]
    assert "program.py, line 7, in <module>" in rows[1][1]
    assert "torch/nn/init.py" in rows[-1][1]
    assert rows[-1][1].rstrip().endswith("torch.nn.init.normal_(torch.empty(2))")
