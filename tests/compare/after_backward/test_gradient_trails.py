"""The gradient that an optimizer gets is found for each parameter, however the optimizer is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.after_backward.gradient_trails import gradient_trails
from msprobe.core.store.reader import find_dumps, load_dump
from tests.fresh_debugger import forget

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, foreach=False),
    "adam-without-decay": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, foreach=False),
    "adamw-foreach": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, foreach=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, foreach=False),
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, foreach=False),
    "two-groups": lambda parameters: torch.optim.AdamW(
        [{"params": parameters[::2]}, {"params": parameters[1::2], "weight_decay": 0.0}], lr=1e-2, foreach=False
    ),
}
SCALE = 0.25


def _trained(folder: Path, kind: str, scale: float, *, zeros: bool = False) -> dict[tuple[str, str], float]:
    """Train one step, with gradients times ``scale`` at the optimizer; return their norms there."""
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    if not zeros:
        nn.init.normal_(model[1].bias)
    optimizer = OPTIMIZERS[kind](list(model.parameters()))
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    model(torch.randn(5, 6)).square().mean().backward()
    factor = torch.tensor([scale])
    for parameter in model.parameters():
        parameter.grad = torch.mul(parameter.grad, factor)
    optimizer.step()
    debugger.stop()
    debugger.step()
    return {
        (name.rpartition(".")[0], name.rpartition(".")[2]): float(parameter.grad.norm())
        for name, parameter in model.named_parameters()
    }


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_each_parameter_has_the_gradient_of_its_own(tmp_path: Path, kind: str) -> None:
    norms = _trained(tmp_path, kind, SCALE)
    trails = gradient_trails(load_dump(find_dumps(tmp_path)[0]))
    found = {(name.split(".")[1], parameter): stages for (name, parameter), stages in trails.items()}
    assert found.keys() == norms.keys()
    for parameter, stages in found.items():
        assert stages[-1].raw["Norm"] == pytest.approx(norms[parameter], rel=1e-5), parameter
        assert stages[0].raw["Norm"] == pytest.approx(norms[parameter] / SCALE, rel=1e-5), parameter
        assert stages[-1].call is not None and stages[-1].call.startswith("Torch.mul.")


def test_a_factor_of_one_leaves_the_way_known(tmp_path: Path) -> None:
    _trained(tmp_path, "adamw", 1.0)
    trails = gradient_trails(load_dump(find_dumps(tmp_path)[0]))
    assert [len(stages) for stages in trails.values()] == [2] * 6


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_what_a_parameter_of_zeros_gets_is_not_known_and_never_that_of_another(tmp_path: Path, kind: str) -> None:
    norms = _trained(tmp_path, kind, SCALE, zeros=True)
    trails = gradient_trails(load_dump(find_dumps(tmp_path)[0]))
    found = {(name.split(".")[1], parameter): stages[-1].raw["Norm"] for (name, parameter), stages in trails.items()}
    assert ("0", "weight") in found and ("1", "bias") not in found
    assert all(norm == pytest.approx(norms[parameter], rel=1e-5) for parameter, norm in found.items())


def test_a_dump_without_an_optimizer_has_none(tmp_path: Path) -> None:
    from tests.compare.dumps import module, tensor, write

    write(tmp_path, {"Module.a.Linear.forward.0": module([tensor()], [tensor()], weight=tensor())})
    assert gradient_trails(load_dump(find_dumps(tmp_path)[0])) == {}
