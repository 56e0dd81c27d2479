"""Module calls of a torch-shaped namespace, observed by replacing ``nn.Module.__call__`` while collecting.

Its ``__call__`` dispatches the user's forward hooks itself, so they run inside the observed call as ever. A module may
be a MindSpore cell or a plain Python class; only what PyTorch's modules offer is asked of it.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from msprobe.adapters.mindspore.module_tap import MindSporeModuleTap, forget
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.errors import MsprobeException
from msprobe.core.selection.modes import Modes


class MSAdapterModuleTap(MindSporeModuleTap):
    """Implements ``ModuleTap``. The models themselves have no name and no record; their submodules do.

    Args:
        kind: the namespace's ``nn.Module``.
    """

    def __init__(self, kind: Any, relay: Relay, thread: ThreadState, modes: Modes) -> None:
        super().__init__(relay, thread, modes)
        self._kind = kind

    def adopt(self, model: Any) -> None:
        models: list[Any] = list(model) if isinstance(model, (list, tuple)) else [model]
        for position, part in enumerate(models):
            if not isinstance(part, self._kind):
                raise MsprobeException(
                    0,
                    f"start(model=...): expected a torch.nn.Module of MSAdapter or a list or tuple of them, "
                    f"got {type(part).__name__}" + (f" at position {position}" if part is not model else ""),
                )
        for position, part in enumerate(models):
            self._adopt_named("Module" if models[0] is model else f"Module.{position}", part)

    def focus(self, module: Any, name: Any) -> None:
        raise MsprobeException(3, "module_dump is not available with MSAdapter; name the modules in list or scope")

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        original = self._kind.__call__
        own = "__call__" in vars(self._kind)
        self._kind.__call__ = self._observed(original)
        try:
            yield
        finally:
            if own:
                self._kind.__call__ = original
            else:
                del self._kind.__call__

    def _adopt_named(self, head: str, model: Any) -> None:
        for path, module in named_modules(model):
            known = self._sites.get(id(module))
            if not path or (known is not None and known[0]() is module):
                continue
            reference = weakref.ref(module, functools.partial(forget, self._sites, id(module)))
            parameters = functools.partial(_own_parameters, weakref.ref(module))
            site = ModuleSite(f"{head}.{path}.{type(module).__name__}", parameters)
            first = self._first.setdefault(site.stem, site)
            if first is not site:
                site.follow(first)
            self._sites[id(module)] = (reference, site)


def named_modules(model: Any) -> Iterable[tuple[str, Any]]:
    """The modules of ``model`` with their paths, itself first with an empty one."""
    named = model.named_modules()
    return list(named.items() if isinstance(named, dict) else named)


def _own_parameters(reference: weakref.ref[Any]) -> list[tuple[str, Any]]:
    """The parameters of the module itself: those PyTorch's method gives, or those a cell keeps."""
    module = reference()
    if module is None:
        return []
    for holder in ("_parameters", "_params"):
        held = vars(module).get(holder)
        if held:
            return [(name, parameter) for name, parameter in held.items() if parameter is not None]
    return []
