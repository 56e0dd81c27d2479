"""A small torch-shaped namespace over real MindSpore, as MSAdapter is one: what its users' scripts import as ``torch``.

MSAdapter itself does not run on current MindSpore without an NPU. Here as there a tensor is ``mindspore.Tensor``, a
module is a plain Python class whose ``__call__`` dispatches the forward hooks, functions are MindSpore's, and gradients
come from ``mindspore.value_and_grad``. ``install`` makes it importable; the real PyTorch must not be in the process.
"""

from __future__ import annotations

import itertools
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import mindspore
import numpy as np
from mindspore import mint
from mindspore.communication import GlobalComm

NAMES = ("torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.distributed")


def install() -> ModuleType:
    """Put the namespace in ``sys.modules``, once, and return its ``torch``."""
    present = sys.modules.get("torch")
    if present is not None:
        if getattr(present, "tensor", None) is not tensor:
            raise RuntimeError("the stand-in needs a process without PyTorch")
        return present
    torch, nn, functional, optim, distributed = (ModuleType(name) for name in NAMES)
    for name, module in zip(NAMES, (torch, nn, functional, optim, distributed), strict=True):
        sys.modules[name] = module
        module.__spec__, module.__path__ = ModuleSpec(name, None), []
    vars(torch).update(nn=nn, optim=optim, distributed=distributed, Tensor=mindspore.Tensor, tensor=tensor)
    vars(torch).update(float32=mindspore.float32, exp=mint.exp, matmul=mint.matmul, sum=mint.sum)
    vars(functional).update(relu=relu, silu=mint.nn.functional.silu, linear=linear, softmax=mint.nn.functional.softmax)
    vars(nn).update(functional=functional, Module=Module, Linear=Linear, ReLU=ReLU, SiLU=SiLU)
    vars(optim).update(SGD=SGD)
    vars(distributed).update(is_initialized=lambda: GlobalComm.INITED, get_rank=mint.distributed.get_rank)
    vars(distributed).update(all_reduce=mint.distributed.all_reduce, all_gather=mint.distributed.all_gather)
    for function in (relu, linear):
        function.__module__ = functional.__name__
    mindspore.runtime.launch_blocking()  # an operator that fails raises where it is called
    return torch


def tensor(data: Any, dtype: Any = None) -> mindspore.Tensor:
    plain = isinstance(data, float) or (isinstance(data, list) and dtype is None)
    return mindspore.Tensor(data, mindspore.float32 if plain else dtype)


def relu(input: Any, inplace: bool = False) -> Any:
    result = mint.nn.functional.relu(input)
    return input.copy_(result) if inplace else result  # MindSpore's relu_ has no kernel on CPUs


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    return mint.nn.functional.linear(input, weight, bias)


class Handle:
    """Takes a hook away again."""

    numbers = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._number = hooks, next(Handle.numbers)
        hooks[self._number] = hook

    def remove(self) -> None:
        self._hooks.pop(self._number, None)


class Module:
    """Parameters and submodules by attribute; forward hooks dispatched by the call."""

    def __init__(self) -> None:
        self._parameters: OrderedDict[str, Any] = OrderedDict()
        self._modules: OrderedDict[str, Module] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._forward_hooks: OrderedDict[int, Any] = OrderedDict()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._modules[name] = value
        elif isinstance(value, mindspore.Parameter):
            self._parameters[name] = value
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        return Handle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> Handle:
        return Handle(self._forward_hooks, hook)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def parameters(self) -> Iterator[Any]:
        for _, module in self.named_modules():
            yield from module._parameters.values()


class Linear(Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        draw = np.random.default_rng(inputs * 100 + outputs).uniform
        bound = inputs**-0.5
        self.weight = _parameter("weight", draw(-bound, bound, (outputs, inputs)))
        self.bias = _parameter("bias", draw(-bound, bound, outputs))

    def forward(self, x: Any) -> Any:
        return sys.modules["torch.nn.functional"].linear(x, self.weight, self.bias)


class ReLU(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Any) -> Any:
        return sys.modules["torch.nn.functional"].relu(x, inplace=self.inplace)


class SiLU(Module):
    def forward(self, x: Any) -> Any:
        return sys.modules["torch.nn.functional"].silu(x)


class SGD:
    def __init__(self, parameters: Any, lr: float) -> None:
        self.param_groups = [{"params": list(parameters), "lr": lr}]

    def step(self, gradients: Any = ()) -> None:
        (group,) = self.param_groups
        for parameter, gradient in zip(group["params"], gradients, strict=False):
            parameter.set_data(parameter - group["lr"] * gradient)


def _parameter(name: str, values: Any) -> mindspore.Parameter:
    return mindspore.Parameter(mindspore.Tensor(values.astype(np.float32)), name=name)
