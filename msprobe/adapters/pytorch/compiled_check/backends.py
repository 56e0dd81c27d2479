"""The back end that a module is compiled with: the checker's own, and those that are found in compiled modules."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from msprobe.core.interruption import import_whole
from msprobe.core.store.safe_files import make_folder, write_atomic

INDUCTOR = "inductor"
_WRAPPED = "_torchdynamo_orig_backend"


class ChosenBackend:
    """Compiles graphs with a back end of torch, and writes their code where that is wanted.

    Args:
        name: the name of the back end.
        folder: where the code of the graphs goes; None writes none.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self._folder = folder
        self._numbers = itertools.count()

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        """Return the compiled form of a graph."""
        if self._folder is not None:
            make_folder(self._folder)
            code = graph.print_readable(print_output=False)
            write_atomic(self._folder / f"graph_{next(self._numbers)}.py", [code.encode()])
        with eager_random(self.name):
            return torch._dynamo.lookup_backend(self.name)(graph, inputs)

    def without_code(self) -> ChosenBackend:
        """Return the same back end that writes no code."""
        return ChosenBackend(self.name)


class NamedBackend(NamedTuple):
    """What a script gives to ``torch.compile``: the name of a back end, and its options."""

    name: str
    options: dict[str, Any]


def eager_random(name: str) -> AbstractContextManager[Any]:
    """Return a context in which a back end draws random numbers as eager mode does."""
    if name != INDUCTOR:
        return contextlib.nullcontext()
    config: Any = import_whole("torch._inductor.config")
    context: AbstractContextManager[Any] = config.patch(fallback_random=True)
    return context


def backend_of(compiled: nn.Module) -> Callable[..., Any]:
    """Return the back end of a compiled module, as torch keeps it."""
    found: Any = compiled.dynamo_ctx.callback
    while hasattr(found, _WRAPPED):
        found = getattr(found, _WRAPPED)
    own = getattr(found, "compiler_fn", None)
    backend: Callable[..., Any] = own.without_code() if isinstance(own, ChosenBackend) else found
    return backend


def named_backend(backend: Callable[..., Any]) -> NamedBackend | None:
    """Return name and options of what ``backend_of`` returned; None for a function that no other process knows."""
    if isinstance(backend, ChosenBackend):
        return NamedBackend(backend.name, {})
    name = getattr(backend, "compiler_name", "")
    if name not in torch.compiler.list_backends(exclude_tags=()):
        return None
    if name == INDUCTOR:
        return NamedBackend(name, dict(getattr(backend, "config", {})))
    return NamedBackend(name, dict(getattr(backend, "kwargs", {}).get("options", {})))
