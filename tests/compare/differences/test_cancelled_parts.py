"""Parts of a gradient that cancel: what Adam makes of them is no difference, recorded or not; faults beside it are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.emulated.device import Device
from tests.fresh_debugger import forget
from tests.recordings import Recordings
from tests.reference_dumps.programs import transformer

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Parameters = Iterable[nn.Parameter]
OPTIMIZERS: dict[str, Callable[[Parameters], torch.optim.Optimizer]] = {
    # With a tiny eps whatever is left of a cancelled gradient becomes a whole step.
    "loop": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, eps=1e-12, foreach=False),
    "foreach": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, eps=1e-12, foreach=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}
FASTER = 3.0
UP = "layers.1.up"


def record(folder: Path, optimizer: str, level: str, task: str, recorded: bool, seed: int, fault: str = "") -> None:
    """Record two steps of a transformer with one bias for query, key and value; ``seed`` is that of another device.

    ``recorded`` says whether the step of the optimizer is recorded; with the fault ``faster`` a layer moves further.
    """
    forget()
    torch.manual_seed(0)
    model, _, loss, _, _ = transformer("")
    update = OPTIMIZERS[optimizer](model.parameters())
    if fault:
        layer = list(model.get_submodule(UP).parameters())
        group = update.param_groups[0]
        group["params"] = [each for each in group["params"] if not any(each is own for own in layer)]
        update.add_param_group({"params": layer, "lr": FASTER * group["lr"]})
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": task})
    device = Device("other")
    device._random.manual_seed(seed)
    for step in range(2):
        with device:
            debugger.start(model)
            loss(model, step).backward()
            if not recorded:
                debugger.stop()
            update.step()
            if recorded:
                debugger.stop()
        debugger.step()
        model.zero_grad()
    forget()


CASES = [
    ("loop", "mix", "statistics", False),
    ("loop", "mix", "tensor", False),
    ("loop", "mix", "tensor", True),
    ("loop", "L1", "statistics", False),
    ("loop", "L1", "statistics", True),
    ("foreach", "L1", "statistics", True),
    ("sgd", "mix", "statistics", False),
]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("optimizer", "level", "task", "recorded"), CASES)
def test_steps_of_rounding_are_the_same(
    recordings: Recordings, optimizer: str, level: str, task: str, recorded: bool
) -> None:
    target, golden = (recordings(record, optimizer, level, task, recorded, seed) for seed in (1, 2))
    for pair in ((target, golden), (golden, target)):
        summary = msprobe.compare(*pair).summary
        assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("optimizer", ["loop", "sgd"])
def test_a_layer_that_moves_too_far_is_named(recordings: Recordings, optimizer: str) -> None:
    golden = recordings(record, optimizer, "mix", "statistics", False, 2)
    target = recordings(record, optimizer, "mix", "statistics", False, 1, "faster")
    for pair in ((target, golden), (golden, target)):
        found = msprobe.compare(*pair).summary.first_divergence
        assert found is not None
        assert found.step == 1
        assert found.module.startswith(UP)
