"""A pass more through the whole model, backward and gradients included, shifts none of the calls after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
Batch = tuple[str, float]
REAL: list[Batch] = [("train", 1.0), ("train", 2.0)]
DUMMY: Batch = ("dummy", 3.0)
EVALUATION: Batch = ("evaluate", 3.0)


def record(folder: Path, level: str, *batches: Batch) -> None:
    """One step of a small model over all batches; each has a loss of its own kind."""
    forget()
    debugger = PrecisionDebugger(task="statistics", dump_path=str(folder), level=level)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.GELU(), nn.LayerNorm(8)), nn.Linear(8, 3))
    with debugger.collect(model):
        for kind, scale in batches:
            x = scale * torch.randn(5, 4, generator=torch.Generator().manual_seed(int(scale)))
            _pass(model, kind, x)
    forget()


def _pass(model: nn.Module, kind: str, x: torch.Tensor) -> None:
    if kind == "train":
        nn.functional.cross_entropy(model(x), torch.arange(5) % 3).backward()
    elif kind == "dummy":
        model(x).sum().backward()
    else:
        with torch.no_grad():
            model(x).argmax(-1)
    model.zero_grad()


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "L0": ("L0", {}),
    "L1": ("L1", {}),
    "mix": ("mix", {}),
    "fuzzy": ("mix", {"fuzzy_match": True}),
    "inferred": ("mix", {"layer_mapping": True}),
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [0, 1, 2], ids=["before", "between", "after"])
@pytest.mark.parametrize("extra", [DUMMY, EVALUATION, ("train", 3.0)], ids=lambda batch: str(batch[0]))
def test_the_others_agree(recordings: Recordings, extra: Batch, at: int, way: str) -> None:
    level, option = WAYS[way]
    more, plain = recordings(record, level, *REAL[:at], extra, *REAL[at:]), recordings(record, level, *REAL)
    for sides in ((more, plain), (plain, more)):
        summary = msprobe.compare(*sides, **option).summary
        counts = summary.counts
        alone = sorted((counts.target_only, counts.golden_only))
        assert (counts.error, counts.warning, alone[0]) == (0, 0, 0), sides
        assert 0 < alone[1] <= counts.passed / 2 + 1
        validates = extra is EVALUATION and way != "inferred"
        harmless = level == "L1" or validates
        assert summary.verdict == ("same" if harmless else "diverged"), "a module more is a result more"


def test_without_modules_functions_of_another_program_are_told(recordings: Recordings) -> None:
    """Where names of calls say nothing, and no module tells a lost layer from other code."""
    more, plain = recordings(record, "L1", *REAL, DUMMY), recordings(record, "L1", *REAL)
    for sides, side in (((more, plain), "target"), ((plain, more), "golden run")):
        summary = msprobe.compare(*sides, layer_mapping=True).summary
        (told,) = summary.incomplete
        assert summary.verdict == "same" and "no modules are recorded" in told and f"only the {side} makes" in told
