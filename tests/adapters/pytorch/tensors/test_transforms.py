"""Tensors inside transforms of ``torch.func``: the values of the tensor below the wrappers are recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, functionalize, grad, hessian, jacrev, jvp, vjp, vmap
from torch.nn import functional as F

from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.tensors.transforms import below_transforms, in_transform, outside_transforms

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 2, 24).reshape(2, 3, 4)
OPS = TorchTensorOps()


def square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


@pytest.mark.parametrize(
    ("transformed", "axes"),
    [
        (lambda look: vmap(look)(X), (0, 1, 2)),
        (lambda look: vmap(look, in_dims=2)(X), (2, 0, 1)),
        (lambda look: vmap(vmap(look, in_dims=1), in_dims=1)(X), (1, 2, 0)),
        (lambda look: grad(look)(X), None),
        (lambda look: vmap(grad(look), in_dims=1)(X), (1, 0, 2)),
        (lambda look: jvp(look, (X,), (X,)), None),
        (lambda look: vjp(look, X)[1](torch.ones(())), None),
        (lambda look: jacrev(look)(X), None),
    ],
    ids=["vmap", "another axis", "nested", "grad", "gradients of each", "jvp", "vjp", "jacrev"],
)
@pytest.mark.parametrize("native", [True, False])
def test_the_axes_of_vmap_come_first(
    transformed: Callable[[Any], Any], axes: tuple[int, ...] | None, native: bool
) -> None:
    ops, seen = TorchTensorOps(native=native), []

    def look(x: torch.Tensor) -> torch.Tensor:
        with outside_transforms():
            seen.append((ops.describe_with_checksum(x, True, "crc32", True), x.dim()))
        return square(x)

    transformed(look)
    whole = X if axes is None else X.permute(axes)
    node, dims = seen[0]
    expected = ops.describe_with_checksum(whole, True, "crc32", True)
    assert {key: node[key] for key in expected if key != "requires_grad"} == {
        key: value for key, value in expected.items() if key != "requires_grad"
    }
    assert node["vmap_axes"] == X.dim() - dims


def test_a_value_needs_a_gradient_where_any_transform_or_autograd_takes_one() -> None:
    seen: list[bool] = []
    weight = torch.ones(4, requires_grad=True)

    def look(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        seen.extend(OPS.describe(one, True)["requires_grad"] for one in (x, *others))
        return square(x)

    vmap(look)(X)
    grad(lambda one: look(one, one * weight))(X)
    vmap(lambda x: look(x * weight))(X)
    assert seen == [False, True, True, True]


def test_what_is_not_written_has_no_values_inside_of_a_transform_either(bench: Any) -> None:
    debugger = bench.open("L1", risk_level="ALL")

    def fill(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        return out.fill_(0.0).add_(x).relu_().sum()

    debugger.start()
    vmap(fill)(X)
    grad(fill)(X)
    debugger.stop()
    debugger.step()
    data = bench.read().data
    for number in range(2):
        assert data[f"Tensor.fill_.{number}.forward"]["input_args"][0]["uninitialised"]
        assert data[f"Tensor.add_.{number}.forward"]["input_args"][1]["Max"] == 2.0
        assert data[f"Tensor.relu_.{number}.forward"]["input_args"][0]["Min"] == -1.0


def test_updates_that_functionalize_holds_back_are_not_read() -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.add_(1)
        seen.append(OPS.describe(y, True))
        return y

    functionalize(look)(X)
    assert seen[0]["no_data"] is True


def test_what_is_no_wrapper_stays_the_same_object() -> None:
    assert below_transforms(X) is X
    assert not in_transform()
    assert vmap(lambda x: x * in_transform())(X).equal(X)


def train(debugger: Any) -> list[torch.Tensor]:
    """Train with transforms of every kind; return what they return, the parameters, and what random numbers follow."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    results: list[torch.Tensor] = []

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(model, parameters, (x,)), y)

    def written(row: torch.Tensor) -> torch.Tensor:
        made = torch.zeros_like(row)
        made.add_(row)
        made[0] = row.sum()
        return made.mul_(2).relu_() + torch.empty_like(row).copy_(row)

    def read(x: torch.Tensor) -> torch.Tensor:
        total = square(x)
        results.append(torch.tensor(float(total.detach())))
        return total

    for _ in range(2):
        if debugger is not None:
            debugger.start(model)
        fixed = {name: value.detach() for name, value in model.named_parameters()}
        results += vmap(grad(loss), in_dims=(None, 0, 0))(fixed, x, y).values()
        rows = x.view(3, 2, 4), y.view(3, 2, 2)
        results += vmap(vmap(grad(loss), (None, 0, 0)), (None, 1, 1))(fixed, *rows).values()
        results += jvp(model, (x,), (torch.ones_like(x),))
        out, back = vjp(functools.partial(loss, x=x, y=y), fixed)
        results += back(torch.ones_like(out))[0].values()
        results.append(hessian(functools.partial(loss, fixed, y=y[0]))(x[0]))
        results += [vmap(lambda row: F.dropout(row) + torch.rand(4), randomness="different")(x)]
        results += [vmap(lambda row: F.dropout(row) + torch.rand(4), randomness="same")(x)]
        results += [vmap(written)(x), vmap(grad(lambda row: written(row * 1).sum()))(x), grad(read)(x)]
        optimizer.zero_grad()
        vmap(loss, (None, 0, 0))(dict(model.named_parameters()), x, y).mean().backward()
        optimizer.step()
        results += [value.detach().clone() for value in model.parameters()]
        if debugger is not None:
            debugger.stop()
            debugger.step()
    return [*results, torch.rand(3)]


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("statistics", {"summary_mode": "md5", "memory": True}),
        ("statistics", {"slice": [{"dim": 0, "begin": 0, "end": 1}]}),
        ("tensor", {"async_dump": True}),
    ],
    ids=["md5", "slice", "async tensors"],
)
def test_a_training_with_transforms_is_recorded_with_values_and_not_changed(
    bench: Any, task: str, options: dict[str, Any]
) -> None:
    expected = train(None)
    got = train(bench.open("mix", task, **options))
    assert len(got) == len(expected)
    assert all(map(torch.equal, got, expected))
    recorded = bench.read()
    assert '"no_data"' not in (recorded.folder / "dump.json").read_text()
    assert not (recorded.folder / "dump_error_info.log").exists()
