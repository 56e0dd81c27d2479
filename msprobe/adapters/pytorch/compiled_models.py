"""Models that ``torch.compile`` has wrapped: looked through, so that their modules keep their names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from torch import nn

from msprobe.adapters.pytorch.step_aside import RECOMPILE_GUARD
from msprobe.core.log import first_time, logger

_INNER = "_orig_mod"


def is_compiled(module: nn.Module) -> bool:
    """Whether ``module`` is an ``OptimizedModule``; asked by its name, because importing its class takes seconds."""
    return type(module).__name__ == "OptimizedModule" and _INNER in module._modules


def inner_model(module: nn.Module) -> nn.Module:
    """The module itself, whatever ``torch.compile`` has wrapped around it."""
    while is_compiled(module):
        module = cast(nn.Module, module._modules[_INNER])
    return module


def class_name(module: nn.Module) -> str:
    """The class of the module itself, whatever is wrapped around it."""
    return type(inner_model(module)).__name__


class CompiledModels:
    """The compiled parts of the models given to ``start``, and which of them were called since."""

    def __init__(self) -> None:
        self.present: dict[int, list[weakref.ref[nn.Module]]] = {}
        self.called: set[int] = set()

    def named_modules(self, model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        """All modules inside ``model`` with their paths. A compiled one stands for the one inside it."""
        for path, module in model.named_modules():
            if is_compiled(module):
                inside = [weakref.ref(inner) for name, inner in module.named_modules() if name and name != _INNER]
                self.present[id(module)] = inside
            parts = path.split(".") if path else []
            named = [part for part in parts if part != _INNER]
            if named and parts[-1] != _INNER:
                yield ".".join(named), module

    def warn_if_unseen(self, site_of: Callable[[nn.Module], Any]) -> None:
        """Say so when compiled code ran and nothing inside it was reported."""
        called, self.called = self.called, set()
        for identity in () if RECOMPILE_GUARD.suspended else called:
            modules = [reference() for reference in self.present.get(identity, ())]
            sites = [site for module in modules if module is not None and (site := site_of(module)) is not None]
            if sites and not any(site.called for site in sites) and first_time(("compiled", identity)):
                logger.warning(
                    "the modules inside a compiled model were not recorded, first of them %s: call "
                    "torch._dynamo.reset() before start()",
                    sites[0].stem,
                )
