"""The frameworks as the contract tests see them: the few names they share, under one face each.

Tensors of both have ``add, mul, mul_, sum, chunk, matmul, backward``; ``functional`` has ``relu, linear, mse_loss``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class World:
    """One framework. ``tensor(array, requires_grad)`` makes a leaf, ``mlp(inplace)`` fc1, act, fc2 on 4 features."""

    name: str
    make: Callable[..., Any]
    ops: Callable[..., Any]
    tensor: Callable[..., Any]
    array: Callable[[Any], Array]
    functional: Any
    tensor_class: type
    module_class: type
    mlp: Callable[..., Any]
    raising: Callable[[], Any]
    sgd: Callable[[Any], Any]

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """Everything a tap may replace, by name."""
        owners = [self.functional, self.tensor_class, self.module_class, *self.more_owners()]
        for owner in owners:
            for name, value in list(vars(owner).items()):
                yield f"{owner!r}.{name}", value

    def more_owners(self) -> list[Any]:
        if self.name != "torch":
            return []
        import torch

        return [torch, torch._VF, torch.nn.utils, torch.linalg]


def fake() -> World:
    from tests.fake_framework import backend, functional, nn
    from tests.fake_framework.tensor import Tensor
    from tests.fake_framework.tensor_ops import FakeTensorOps

    class MLP(nn.Module):
        def __init__(self, inplace: bool) -> None:
            self.fc1, self.act, self.fc2 = nn.Linear(4, 3), nn.ReLU(inplace), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    class Broken(nn.Module):
        def __init__(self) -> None:
            self.inner = Raising()

        def forward(self, x: Tensor) -> Any:
            return self.inner(x)

    class Raising(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.matmul(x)

    return World(
        name="fake",
        make=backend.make,
        ops=FakeTensorOps,
        tensor=lambda array, requires_grad=False: Tensor(np.array(array), requires_grad),
        array=lambda tensor: np.asarray(tensor.data),
        functional=functional,
        tensor_class=Tensor,
        module_class=nn.Module,
        mlp=lambda inplace=False: MLP(inplace),
        raising=Broken,
        sgd=lambda model: nn.SGD(model.parameters(), 0.1),
    )


def torch() -> World:
    import torch

    from msprobe.adapters.pytorch.backend import make
    from msprobe.adapters.pytorch.tensor_ops import TorchTensorOps

    class MLP(torch.nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.fc1, self.act, self.fc2 = torch.nn.Linear(4, 3), torch.nn.ReLU(inplace), torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Raising()

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x)

    class Raising(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.matmul(x)

    return World(
        name="torch",
        make=make,
        ops=TorchTensorOps,
        tensor=lambda array, requires_grad=False: torch.from_numpy(np.array(array)).requires_grad_(requires_grad),
        array=lambda tensor: tensor.detach().numpy(),
        functional=torch.nn.functional,
        tensor_class=torch.Tensor,
        module_class=torch.nn.Module,
        mlp=lambda inplace=False: MLP(inplace),
        raising=Broken,
        sgd=lambda model: torch.optim.SGD(model.parameters(), 0.1),
    )


WORLDS: dict[str, Callable[[], World]] = {"fake": fake, "torch": torch}


def installed(name: str) -> bool:
    return name == "fake" or importlib.util.find_spec(name) is not None
