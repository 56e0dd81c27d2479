"""Operators that inductor computes wrongly, because a lowering or decomposition of it is replaced, and programs that
call them. Each program is a function of one line, so the line to name is known."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

functional = torch.nn.functional


class Planted(NamedTuple):
    """A fault: which operator is wrong in which table of inductor, and the call of the program that leads to it."""

    operator: str
    direction: str
    table: str
    call: Callable[..., Any]

    @property
    def line(self) -> str:
        """Return the path and the number of the line of the call, as a source line begins."""
        _, first = inspect.getsourcelines(self.call)
        return f"{__file__}:{first + 1} in "


def relu(x: Any) -> Any:
    return torch.relu(x)


def sigmoid(x: Any) -> Any:
    return torch.sigmoid(x)


def exp(x: Any) -> Any:
    return torch.exp(x * 0.1)


def tanh(x: Any) -> Any:
    return torch.tanh(x)


def gelu(x: Any) -> Any:
    return functional.gelu(x)


def silu(x: Any) -> Any:
    return functional.silu(x)


def leaky_relu(x: Any) -> Any:
    return functional.leaky_relu(x, 0.2)


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def log_softmax(x: Any) -> Any:
    return torch.log_softmax(x, -1)


def layer_norm(x: Any) -> Any:
    return functional.layer_norm(x, (8,))


def mean(x: Any) -> Any:
    return x - x.mean(-1, keepdim=True)


def square_root(x: Any) -> Any:
    return x * torch.rsqrt(x * x + 1.0)


def cat(x: Any) -> Any:
    return torch.cat((x, x * 2), -1).narrow(-1, 4, 8)


def where(x: Any) -> Any:
    return torch.where(x > 0, x, x * 0.5)


def cumsum(x: Any) -> Any:
    return torch.cumsum(x, 1)


FAULTS = {
    f"{one.operator}-{one.table}": one
    for one in (
        Planted("relu.default", "forward", "lowerings", relu),
        Planted("sigmoid.default", "forward", "lowerings", sigmoid),
        Planted("exp.default", "forward", "lowerings", exp),
        Planted("tanh.default", "forward", "lowerings", tanh),
        Planted("mean.dim", "forward", "lowerings", mean),
        Planted("rsqrt.default", "forward", "lowerings", square_root),
        Planted("cat.default", "forward", "lowerings", cat),
        Planted("where.self", "forward", "lowerings", where),
        Planted("cumsum.default", "forward", "lowerings", cumsum),
        Planted("gelu.default", "forward", "decompositions", gelu),
        Planted("silu.default", "forward", "decompositions", silu),
        Planted("leaky_relu.default", "forward", "decompositions", leaky_relu),
        Planted("_softmax.default", "forward", "decompositions", softmax),
        Planted("native_layer_norm.default", "forward", "decompositions", layer_norm),
        Planted("gelu_backward.default", "backward", "decompositions", gelu),
        Planted("silu_backward.default", "backward", "decompositions", silu),
        Planted("tanh_backward.default", "backward", "decompositions", tanh),
        Planted("sigmoid_backward.default", "backward", "decompositions", sigmoid),
        Planted("threshold_backward.default", "backward", "decompositions", relu),
        Planted("leaky_relu_backward.default", "backward", "decompositions", leaky_relu),
        Planted("_softmax_backward_data.default", "backward", "decompositions", softmax),
        Planted("_log_softmax_backward_data.default", "backward", "decompositions", log_softmax),
        Planted("native_layer_norm_backward.default", "backward", "decompositions", layer_norm),
    )
}


class Block(nn.Module):
    """A call between two layers, so that the operator is one of many in its kernel."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)
        self.call = call

    def forward(self, x: Any) -> Any:
        return self.down(self.call(self.up(x)) * 1.5 - 0.25) + x


class Model(nn.Module):
    """A block that is right, one with the planted call, and a head."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList((Block(torch.cos), Block(call)))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@contextlib.contextmanager
def wrong(fault: Planted) -> Iterator[None]:
    """Let inductor compute an operator wrongly in a block, by a percent in its first result."""
    module, table = ("lowering", "lowerings") if fault.table == "lowerings" else ("decomposition", "decompositions")
    entries: dict[Any, Any] = getattr(importlib.import_module(f"torch._inductor.{module}"), table)
    packet, _, overload = fault.operator.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    right = entries[operator]
    scaled = entries[torch.ops.aten.mul.Tensor] if fault.table == "lowerings" else torch.mul

    def replaced(*args: Any, **kwargs: Any) -> Any:
        result = right(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            return (scaled(result[0], 1.01), *result[1:])
        return result if result is NotImplemented else scaled(result, 1.01)

    caches = torch._inductor.config.patch(fx_graph_cache=False)  # type: ignore[attr-defined]
    with caches, torch._functorch.config.patch(enable_autograd_cache=False):  # type: ignore[attr-defined]
        entries[operator] = replaced
        try:
            yield
        finally:
            entries[operator] = right
