"""The frameworks as the contract tests see them: the few names they share, under one face each.

Tensors of all have ``add, mul, mul_, sum, chunk, matmul``; ``functional`` has ``relu, linear``. What only one framework
calls otherwise (``Cell`` for ``Module``) is renamed when a dump is loaded: see ``Framework.load``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.store.reader import Dump, find_dumps, load_dump

Array = NDArray[Any]


@dataclass(frozen=True)
class Framework:
    """One framework. ``tensor(array, requires_grad)`` makes a leaf, ``mlp(inplace)`` fc1, act, fc2 on 4 features.

    ``differentiate(loss, *leaves, model=None)`` runs ``loss(*leaves)`` and its backward pass, and returns the leaves'
    gradients as arrays.
    """

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
    differentiate: Callable[..., list[Array]]
    optimize: Callable[[Any], Any] = lambda optimizer: optimizer.step()
    fields: tuple[str, ...] = ("requires_grad",)
    renamed: tuple[tuple[str, str], ...] = ()

    def load(self, root: Path) -> Dump:
        """The first dump below ``root``, under the names that all frameworks share."""
        dump = load_dump(find_dumps(root)[0])
        if not self.renamed:
            return dump
        for table in (dump.data, dump.construct, dump.stacks):
            renamed = {self._shared(name): self._shared(value) for name, value in table.items()}
            table.clear()  # type: ignore[attr-defined]
            table.update(renamed)  # type: ignore[attr-defined]
        return dump

    def _shared(self, name: Any) -> Any:
        for own, shared in self.renamed:
            if isinstance(name, str) and name.startswith(own):
                return shared + name[len(own) :]
        return name

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """Everything a tap may replace, by name."""
        owners = [self.functional, self.tensor_class, self.module_class, *self.more_owners()]
        for owner in owners:
            for name, value in list(vars(owner).items()):
                yield f"{owner!r}.{name}", value

    def more_owners(self) -> list[Any]:
        if self.name == "torch":
            import torch

            return [torch, torch._VF, torch.nn.utils, torch.linalg]
        if self.name == "mindspore":
            return list(mindspore_owners())
        return []


def _networks(module: Any, linear: Any, relu: Any, forward: str = "forward") -> tuple[Any, Any]:
    """The classes of ``mlp`` and ``raising``; modules of the framework call the method ``forward`` by this name."""

    def network(cls: type) -> type:
        setattr(cls, forward, cls.run)  # type: ignore[attr-defined]
        return cls

    @network
    class MLP(module):
        def __init__(self, inplace: bool = False) -> None:
            super().__init__()
            self.fc1, self.act, self.fc2 = linear(4, 3), relu(inplace), linear(3, 2)

        def run(self, x: Any) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    @network
    class Broken(module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Raising()

        def run(self, x: Any) -> Any:
            return self.inner(x)

    @network
    class Raising(module):
        def run(self, x: Any) -> Any:
            return x.matmul(x)

    return MLP, Broken


def fake() -> Framework:
    from tests.fake_framework import backend, functional, nn
    from tests.fake_framework.tensor import Tensor
    from tests.fake_framework.tensor_ops import FakeTensorOps

    mlp, broken = _networks(nn.Module, nn.Linear, nn.ReLU)

    return Framework(
        name="fake",
        make=backend.make_backend,
        ops=FakeTensorOps,
        tensor=lambda array, requires_grad=False: Tensor(np.array(array), requires_grad),
        array=lambda tensor: np.asarray(tensor.data),
        functional=functional,
        tensor_class=Tensor,
        module_class=nn.Module,
        mlp=mlp,
        raising=broken,
        sgd=lambda model: nn.SGD(model.parameters(), 0.1),
        differentiate=_by_backward(lambda gradient: np.asarray(gradient)),
    )


def _by_backward(array: Callable[[Any], Array]) -> Callable[..., list[Array]]:
    def differentiate(loss: Callable[..., Any], *leaves: Any, model: Any = None) -> list[Array]:
        loss(*leaves).backward()
        return [array(leaf.grad) for leaf in leaves if leaf.grad is not None]

    return differentiate


def torch() -> Framework:
    import torch

    from msprobe.adapters.pytorch.backend import make_backend
    from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps

    mlp, broken = _networks(torch.nn.Module, torch.nn.Linear, torch.nn.ReLU)

    return Framework(
        name="torch",
        make=make_backend,
        ops=TorchTensorOps,
        tensor=lambda array, requires_grad=False: torch.from_numpy(np.array(array)).requires_grad_(requires_grad),
        array=lambda tensor: tensor.detach().numpy(),
        functional=torch.nn.functional,
        tensor_class=torch.Tensor,
        module_class=torch.nn.Module,
        mlp=mlp,
        raising=broken,
        sgd=lambda model: torch.optim.SGD(model.parameters(), 0.1),
        differentiate=_by_backward(lambda gradient: gradient.numpy()),
    )


def msadapter() -> Framework:
    """Needs a process of its own: the stand-in takes the name ``torch``."""
    import mindspore

    from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps
    from msprobe.adapters.msadapter.backend import make_backend
    from tests.msadapter_stand_in import install

    torch = install()
    nn = torch.nn

    mlp, broken = _networks(nn.Module, nn.Linear, nn.ReLU)

    return Framework(
        name="msadapter",
        make=make_backend,
        ops=MindSporeTensorOps,
        tensor=lambda array, requires_grad=False: mindspore.Tensor(np.array(array)),
        array=lambda tensor: tensor.asnumpy(),
        functional=nn.functional,
        tensor_class=mindspore.Tensor,
        module_class=nn.Module,
        mlp=mlp,
        raising=broken,
        sgd=lambda model: torch.optim.SGD(model.parameters(), 0.1),
        differentiate=_by_value_and_grad(lambda model: list(model.parameters())),
        fields=(),
    )


def mindspore() -> Framework:
    import mindspore

    from msprobe.adapters.mindspore.backend import make_backend
    from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps

    mindspore.runtime.launch_blocking()  # an operator that fails does so where it is called
    mint = mindspore.mint

    def relu(inplace: bool) -> Any:
        assert not inplace, "mint.nn.ReLU does not work in place"
        return mint.nn.ReLU()

    mlp, broken = _networks(mindspore.nn.Cell, mint.nn.Linear, relu, "construct")

    return Framework(
        name="mindspore",
        make=make_backend,
        ops=MindSporeTensorOps,
        tensor=lambda array, requires_grad=False: mindspore.Tensor(np.array(array)),
        array=lambda tensor: tensor.asnumpy(),
        functional=mint.nn.functional,
        tensor_class=mindspore.Tensor,
        module_class=mindspore.nn.Cell,
        mlp=mlp,
        raising=broken,
        sgd=lambda model: mindspore.nn.SGD(model.trainable_params(), 0.1),
        optimize=lambda optimizer: optimizer(tuple(map(mindspore.ops.zeros_like, optimizer.parameters))),
        differentiate=_by_value_and_grad(lambda model: model.trainable_params()),
        fields=(),
        renamed=(
            ("Cell.", "Module."),
            ("MintFunctional.", "Functional."),
            ("Primitive.dense.Dense.", "Functional.linear."),  # what mint.nn.Linear calls
            ("Primitive.relu.ReLU.", "Functional.relu."),
        ),
    )


def mindspore_owners() -> Iterator[Any]:
    """Everything of MindSpore that holds functions or ``__call__`` we may replace."""
    import mindspore

    from msprobe.adapters.mindspore.taps.jit_tap import EXECUTOR

    yield from (mindspore.ops, mindspore.mint, mindspore.mint.distributed, mindspore.communication, EXECUTOR)
    yield from (mindspore.nn.Optimizer, mindspore.experimental.optim.Optimizer)
    yield from (mindspore.communication.comm_func, mindspore.mint.distributed.P2POp)
    yield from {kind for kind in vars(mindspore.ops.operations).values() if isinstance(kind, type)}


FRAMEWORKS: dict[str, Callable[[], Framework]] = {"fake": fake, "torch": torch, "mindspore": mindspore}
ALONE: dict[str, Callable[[], Framework]] = {"msadapter": msadapter}
"""Run in a process of their own (``--backends=msadapter``): see tests/adapters/msadapter/test_alone.py."""


def _by_value_and_grad(weights_of: Callable[[Any], Any]) -> Callable[..., list[Array]]:
    """Differentiation as MindSpore does it: a function of the leaves and of the model's weights."""

    def differentiate(loss: Callable[..., Any], *leaves: Any, model: Any = None) -> list[Array]:
        import mindspore

        weights = None if model is None else weights_of(model)
        positions = tuple(range(len(leaves))) or None
        _, found = mindspore.value_and_grad(loss, positions, weights)(*leaves)
        inputs = found if weights is None else found[0] if leaves else ()
        return [gradient.asnumpy() for gradient in inputs]

    return differentiate


def installed(name: str) -> bool:
    package = {"fake": "numpy", "msadapter": "mindspore"}.get(name, name)
    return importlib.util.find_spec(package) is not None
