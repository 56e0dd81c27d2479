"""Models that a compiler has made into others: their modules keep the names that they have in the original.

``torch.compile`` wraps a model. ``torch.jit`` makes modules of its own, inside of which no call passes through Python.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD
from msprobe.core.log import first_time, logger

_INNER = "_orig_mod"
_MOST_BREAKS = 8
_OWN = str(Path(__file__).parents[3])


def is_compiled(module: nn.Module) -> bool:
    """Return whether ``module`` is an ``OptimizedModule``, by the name of its class: to import it takes seconds."""
    return type(module).__name__ == "OptimizedModule" and _INNER in module._modules


def inner_model(module: nn.Module) -> nn.Module:
    """Return the module inside all wrappers of ``torch.compile``, or ``module`` itself."""
    while is_compiled(module):
        module = cast(nn.Module, module._modules[_INNER])
    return module


def class_name(module: nn.Module) -> str:
    """Return the name of the class that a module had before a compiler wrapped it or made another of it."""
    inner = inner_model(module)
    return str(inner.original_name) if isinstance(inner, torch.jit.ScriptModule) else type(inner).__name__


def tell_of_scripts(head: str, model: nn.Module) -> None:
    """Log a warning for each outermost TorchScript module of a model: the calls inside it are not recorded.

    Args:
        head: the first part of the names of the model's modules.
        model: the model.
    """
    scripts: list[str] = []
    for path, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule) or any(
            path.startswith(f"{one}.") or not one for one in scripts
        ):
            continue
        scripts.append(path)
        name = f"{head}.{path}.{class_name(module)}" if path else f"the model {class_name(module)}"
        seen = "only its inputs, outputs and gradients are recorded" if path else "its modules are not recorded"
        if first_time(("script", name)):
            logger.warning(
                "%s is a TorchScript module, which runs outside of Python: %s; give start() the model that it was made "
                "of, or one exported by torch.export; its operators are recorded with Aten. in the list of config.json",
                name,
                seen,
            )


def tell_of_graph_breaks() -> None:
    """Log where Dynamo has cut the program into several graphs, each place once."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    breaks: dict[str, str] = {}
    for one in list(getattr(utils, "graph_break_reasons", ())):
        frame = one.user_stack[-1] if one.user_stack else None
        if frame is not None and frame.filename.startswith(_OWN):
            continue
        place = "an unknown line" if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}"
        breaks.setdefault(place, str(one.reason).strip().partition("\n")[0])
    new = [f"{place} ({reason})" for place, reason in breaks.items() if first_time(("graph break", place))]
    if new:
        more = f"; and {len(new) - _MOST_BREAKS} more" if len(new) > _MOST_BREAKS else ""
        logger.info(
            "the program breaks compiled code into several graphs at %d new place(s), which leaves nothing out of the "
            "dump: %s%s",
            len(new),
            "; ".join(new[:_MOST_BREAKS]),
            more,
        )


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
