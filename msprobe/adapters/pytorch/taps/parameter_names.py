"""The names of the parameters of adopted models, as a plain model has them, and which parameters share memory.

A parameter is named by its path in the model that the user wrote: the modules that ``DistributedDataParallel``,
``FSDP``, activation checkpointing and ``torch.compile`` put around others are left out. So a parameter has one name
whatever surrounds the model. In a list of models the path begins with the position of the model.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import inner_model
from msprobe.adapters.pytorch.tensors.memory import PLAIN
from msprobe.core.interruption import let_through

_INSERTED = ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")
_WRAPPERS = ("DistributedDataParallel", "DataParallel")


class ParameterNames:
    """The names of parameters; models are held weakly."""

    def __init__(self) -> None:
        self._models: dict[int, tuple[weakref.ref[nn.Module], str]] = {}  # by id; C code removes one that dies
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}

    def add(self, head: str, model: nn.Module) -> None:
        """Name the parameters of ``model``; ``head`` is the prefix of the names of its modules, ``Module.0``."""
        position = head.partition(".")[2]
        reference = weakref.ref(model, functools.partial(self._models.pop, id(model)))
        self._models[id(model)] = reference, f"{position}." if position else ""

    def models(self) -> list[nn.Module]:
        """Return the models."""
        return [model for model, _ in self._present()]

    def all(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every parameter as it is now, one that has several names with each of them."""
        for model, prefix in self._present():
            for path, module in unwrapped(model).named_modules(remove_duplicate=False):
                start = prefix + plain_name(f"{path}." if path else "")
                own = module._parameters.items()
                yield from ((start + key, parameter) for key, parameter in own if parameter is not None)

    def of(self, parameters: Iterable[torch.Tensor]) -> list[str | None]:
        """Return the first name of each of ``parameters``; None for one that is no parameter of an adopted model."""
        tensors = list(parameters)
        names = self._look_up(tensors)
        if None in names:
            known: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
            for name, parameter in self.all():
                known.setdefault(id(parameter), (weakref.ref(parameter), name))
            self._known = known  # at once: other threads look names up meanwhile
            names = self._look_up(tensors)
        return names

    def shared(self) -> list[list[str]]:
        """Return the names of parameters that are one tensor, or begin at one address, in groups of two and more."""
        groups: dict[int, list[str]] = {}
        for name, parameter in self.all():
            groups.setdefault(_address(parameter) or id(parameter), []).append(name)
        return [names for names in groups.values() if len(names) > 1]

    def _present(self) -> list[tuple[nn.Module, str]]:
        found = [(reference(), prefix) for reference, prefix in list(self._models.values())]
        return [(model, prefix) for model, prefix in found if model is not None]

    def _look_up(self, tensors: list[torch.Tensor]) -> list[str | None]:
        known = [self._known.get(id(tensor)) for tensor in tensors]
        return [
            entry[1] if entry is not None and entry[0]() is tensor else None
            for entry, tensor in zip(known, tensors, strict=True)
        ]


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model that the user wrote, without ``DistributedDataParallel`` or a compiler around it."""
    inner = inner_model(without_data_parallel(model))
    return model if inner is model else unwrapped(inner)


def without_data_parallel(model: nn.Module) -> nn.Module:
    """Return the model inside of ``DistributedDataParallel``."""
    while type(model).__name__ in _WRAPPERS and (inner := model._modules.get("module")) is not None:
        model = inner
    return model


def plain_name(name: str) -> str:
    """Return the name of a parameter without the modules that wrappers put between those of the user."""
    for inserted in _INSERTED:
        name = name.replace(inserted, "")
    return name


def _address(parameter: torch.Tensor) -> int:
    """Return the address of the first element; 0 where that identifies nothing."""
    if type(parameter) not in PLAIN or not parameter.numel():
        return 0
    try:
        return parameter.data_ptr()
    except RuntimeError as error:  # no memory of its own
        let_through(error)
        return 0
