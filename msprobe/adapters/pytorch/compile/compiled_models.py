"""Models that ``torch.compile`` has wrapped: their modules keep the names that they have without the wrapper."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD
from msprobe.core.log import first_time, logger

_INNER = "_orig_mod"


def is_compiled(module: nn.Module) -> bool:
    """Return whether ``module`` is an ``OptimizedModule``, by the name of its class: to import it takes seconds."""
    return type(module).__name__ == "OptimizedModule" and _INNER in module._modules


def inner_model(module: nn.Module) -> nn.Module:
    """Return the module inside all wrappers of ``torch.compile``, or ``module`` itself."""
    while is_compiled(module):
        module = cast(nn.Module, module._modules[_INNER])
    return module


def class_name(module: nn.Module) -> str:
    """Return the name of the class of the module inside all wrappers of ``torch.compile``."""
    return type(inner_model(module)).__name__


class CompiledModels:
    """The compiled parts of the models given to ``start``.

    Attributes:
        present: by ``id`` of a compiled module, the modules inside it.
        called: the ids of those that were called since the last warning.
    """

    def __init__(self) -> None:
        self.present: dict[int, list[weakref.ref[nn.Module]]] = {}
        self.called: set[int] = set()

    def named_modules(self, model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        """Yield all modules inside ``model`` with their paths; a compiled one stands for the one inside it."""
        for path, module in model.named_modules():
            if is_compiled(module):
                inside = [weakref.ref(inner) for name, inner in module.named_modules() if name and name != _INNER]
                self.present[id(module)] = inside
            parts = path.split(".") if path else []
            named = [part for part in parts if part != _INNER]
            if named and parts[-1] != _INNER:
                yield ".".join(named), module

    def warn_if_unseen(self, site_of: Callable[[nn.Module], Any]) -> None:
        """Log a warning when compiled code ran and nothing inside it was reported."""
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
