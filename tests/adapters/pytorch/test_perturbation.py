"""``perturb``: parameters and inputs of a model move by one unit round-off, and nothing else of the program does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch.backend import make_backend
from msprobe.adapters.pytorch.perturbation import moved
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.errors import MsprobeException

pytestmark = pytest.mark.torch
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_element_becomes_a_neighbour(dtype: torch.dtype) -> None:
    values = torch.randn(1000, generator=generator()).to(dtype)
    values = values[values != 0]
    result = moved(values, generator())
    ulps = (result.double() - values.double()).abs() / values.double().abs() / torch.finfo(dtype).eps
    assert ulps.min() >= 0.49 and ulps.max() <= 1.01
    assert 0.4 < (result > values).double().mean() < 0.6
    assert torch.equal(result, moved(values, generator())) and not torch.equal(result, moved(values, generator(1)))


def test_what_has_no_neighbour_stays() -> None:
    odd = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    assert moved(odd, generator()).numpy().tobytes() == odd.numpy().tobytes()
    largest = torch.full((64,), torch.finfo(torch.float32).max)
    assert moved(largest, generator()).isfinite().all()
    for other in (torch.arange(4), torch.tensor([True]), torch.ones(4).to(torch.float8_e4m3fn)):
        assert moved(other, generator()) is other
    assert moved(torch.ones(3, dtype=torch.complex64), generator()).abs().ne(1).all()


class Chosen(nn.Module):
    """Takes tensors of several kinds in several places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(8, 4), nn.Linear(4, 4)
        self.got: list[torch.Tensor] = []

    def forward(self, tokens: torch.Tensor, *, state: dict[str, torch.Tensor]) -> torch.Tensor:
        self.got += [tokens, state["hidden"]]
        return self.head(self.embedding(tokens) + state["hidden"])


def run(folder: Path, steps: int = 1, **settings: object) -> tuple[Chosen, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model, hidden = Chosen(), torch.randn(3, 4, requires_grad=True)
    session = DumpSession(load_config({"dump_path": str(folder), "level": "mix", **settings}), make_backend)
    for _ in range(steps):
        session.start(model)
        model(torch.tensor([1, 2, 3]), state={"hidden": hidden}).sum().backward()
        session.stop()
        session.step()
    session.close()
    return model, hidden, hidden.grad, torch.rand(4)


def test_parameters_and_floating_inputs_move_once(tmp_path: Path) -> None:
    plain, hidden, gradient, drawn = run(tmp_path / "plain", steps=2)
    model, same, moved_gradient, also_drawn = run(tmp_path / "moved", steps=2, perturb=3)
    for old, new in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(moved(new.detach(), generator()).sign(), new.detach().sign())
        assert ((new - old).abs() / old.abs()).max() < 1.3e-7 and torch.ne(new, old).double().mean() > 0.99
    assert torch.equal(same, hidden), "the tensor of the program stays as it is"
    assert torch.equal(model.got[0], plain.got[0]) and torch.ne(model.got[1], plain.got[1]).any()
    assert ((moved_gradient - gradient).abs() / gradient.abs()).max() < 1e-5, "the gradient flows to the program's"
    assert torch.equal(drawn, also_drawn), "the random numbers of the program stay the same"
    (document,) = (tmp_path / "moved" / "step0").rglob("dump.json")
    assert json.loads(document.read_text())["perturbed"] == 3
    assert not hasattr(nn.Module.__call__, "__wrapped__"), "nothing stays wrapped"


def test_the_model_is_needed(tmp_path: Path) -> None:
    session = DumpSession(load_config({"dump_path": str(tmp_path), "level": "L1", "perturb": 1}), make_backend)
    with pytest.raises(MsprobeException, match=r"perturb moves parameters and inputs.*start\(model"):
        session.start()
    session.close()
