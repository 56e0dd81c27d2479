"""A loss that is scaled before the backward pass, with gradients divided again, is no difference and hides none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

SCALE, LIMIT = 512.0, 0.05
REACHED = 0.6
"""A limit that gradients of a doubled loss exceed, and those of the loss itself do not."""


class Model(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        if "cut" in self.way:
            x = x.detach() * 0.5 + x * 0.5  # cut
        if "larger" in self.way:
            x = x * 1.2  # larger
        return self.head(F.gelu(self.second(x)))


def train(folder: Path, way: str, level: str = "mix") -> None:
    """Record two steps.

    Words of ``way``: ``scaler`` and ``by hand`` scale the loss, ``adam`` and ``foreach`` are other optimizers, ``clip``
    and ``wide`` clip. Faults are ``more`` (a larger loss), ``cut``, ``larger``, ``half`` (divided too little),
    ``never`` and ``early`` (clipped before the division).
    """
    forget()
    torch.manual_seed(0)
    model, scaler = Model(way), torch.amp.GradScaler("cpu", init_scale=SCALE, enabled="scaler" in way)
    kind = torch.optim.Adam if "adam" in way else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=0.1, foreach="foreach" in way)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    x, y = torch.randn(2, 5, 6), torch.tensor([0, 1, 2, 1, 0])
    for step in range(2):
        debugger.start(model)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[step]), y)
        loss = loss * 4.0 if "more" in way else loss  # more
        (scaler.scale(loss) if "scaler" in way else loss * SCALE if "by hand" in way else loss).backward()  # scaled
        if "early" in way:
            nn.utils.clip_grad_norm_(model.parameters(), LIMIT)  # clipped
        scaler.unscale_(optimizer)
        for parameter in model.parameters() if "by hand" in way and "never" not in way else ():
            assert parameter.grad is not None
            parameter.grad.div_(SCALE / 2 if "half" in way else SCALE)  # divided
        if "wide" in way:
            nn.utils.clip_grad_norm_(model.parameters(), REACHED)
        if "clip" in way:
            nn.utils.clip_grad_norm_(model.parameters(), LIMIT)  # clipped
        scaler.step(optimizer)
        scaler.update()
        debugger.stop()
        debugger.step()
    forget()


WAYS = [
    ("scaler clip foreach adam", "clip adam"),
    ("scaler", ""),
    ("by hand", ""),
    ("by hand", "scaler"),
    ("scaler adam", "adam"),
    ("by hand clip", "clip"),
]


@pytest.mark.parametrize(("way", "other"), WAYS)
def test_a_scaled_loss_is_no_difference(recordings: Recordings, way: str, other: str) -> None:
    one, two = recordings(train, way), recordings(train, other)
    for target, golden, factor in ((one, two, "512"), (two, one, "0.00195312")):
        result = msprobe.compare(target, golden)
        assert result.verdict == "same", result.summary.reason
        said = f"gradients of the target are {factor} times those of the golden run" in result.summary.reason
        assert said == (other != "scaler")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    ("way", "other", "line"),
    [
        ("by hand cut", "", "# cut"),
        ("scaler adam cut", "adam", "# cut"),
        ("scaler larger", "", "# larger"),
        ("by hand half", "", "# divided"),
        ("scaler early", "clip", "# clipped"),
        ("by hand never", "", "# scaled"),
        ("by hand never adam", "adam", "# scaled"),
        ("by hand never clip", "clip", "# scaled"),
        ("more wide adam", "wide adam", "# more"),
        ("more clip", "clip", "# more"),
    ],
)
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_fault_beside_a_scaled_loss_is_named(
    recordings: Recordings, way: str, other: str, line: str, turned: bool
) -> None:
    sides = recordings(train, way), recordings(train, other)
    result = msprobe.compare(*(sides[::-1] if turned else sides))
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    texts = Path(__file__).read_text(encoding="utf-8").splitlines()
    lines = {number for number, text in enumerate(texts, 1) if text.endswith(line)}
    assert any(f":{number} " in found.source for number in lines), (found.source, found.reason)


def test_the_factor_is_said_where_no_optimizer_shows_more(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(train, "by hand", "L0"), recordings(train, "", "L0")).summary.first_divergence
    assert found is not None and "gradients of the target are 512 times those of the golden run" in found.reason
