"""Records a model with the real debugger and loads what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.pytorch import PrecisionDebugger
from tests.compare.layer_inference.transformers import run
from tests.fresh_debugger import forget

Record = Callable[[nn.Module, str], Dump]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    """``record(model, name)``: one step of the model at level mix, loaded; files lie in ``tmp_path / name``."""

    def recorded(model: nn.Module, name: str) -> Dump:
        forget()
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(tmp_path / name)})
        debugger.start(model)
        run(model)
        debugger.stop()
        debugger.step()
        forget()
        (place,) = find_dumps(tmp_path / name)
        return load_dump(place)

    yield recorded
    forget()
