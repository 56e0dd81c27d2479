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


def msadapter() -> World:
    """Needs a process of its own: the stand-in takes the name ``torch``."""
    import mindspore

    from msprobe.adapters.mindspore.tensor_ops import MindSporeTensorOps
    from msprobe.adapters.msadapter.backend import make
    from tests.msadapter_stand_in import install

    torch = install()
    nn = torch.nn

    class MLP(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.fc1, self.act, self.fc2 = nn.Linear(4, 3), nn.ReLU(inplace), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Raising()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    class Raising(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.matmul(x)

    return World(
        name="msadapter",
        make=make,
        ops=MindSporeTensorOps,
        tensor=lambda array, requires_grad=False: mindspore.Tensor(np.array(array)),
        array=lambda tensor: tensor.asnumpy(),
        functional=nn.functional,
        tensor_class=mindspore.Tensor,
        module_class=nn.Module,
        mlp=lambda inplace=False: MLP(inplace),
        raising=Broken,
        sgd=lambda model: torch.optim.SGD(model.parameters(), 0.1),
    )


WORLDS: dict[str, Callable[[], World]] = {"fake": fake, "torch": torch}
ALONE: dict[str, Callable[[], World]] = {"msadapter": msadapter}
"""Run in a process of their own (``--backends=msadapter``): see tests/adapters/msadapter/test_alone.py."""


def installed(name: str) -> bool:
    package = {"fake": "numpy", "msadapter": "mindspore"}.get(name, name)
    return importlib.util.find_spec(package) is not None
