"""Observe module calls of a torch-shaped namespace by replacing ``nn.Module.__call__`` while collecting.

``__call__`` also runs the user's forward hooks, so they run inside the observed call as before. A module may be a
MindSpore cell or a plain Python class; only methods that PyTorch's modules have are used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from msprobe.adapters.mindspore.taps.module_tap import MindSporeModuleTap
from msprobe.adapters.mindspore.taps.parameter_names import own_parameters
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import module_call_in_place
from msprobe.core.dump.session.debugger import models_with_prefixes
from msprobe.core.errors import MsprobeException


class MSAdapterModuleTap(MindSporeModuleTap):
    """Implements ``ModuleTap``. The models themselves have no name and no record; their submodules have.

    Args:
        kind: the namespace's ``nn.Module``.
    """

    def __init__(self, kind: Any, current: CurrentObserver, thread: ThreadState) -> None:
        super().__init__(current, thread)
        self._kind = kind

    def adopt(self, model: Any) -> None:
        for head, part in models_with_prefixes(model, self._kind, "torch.nn.Module of MSAdapter", "Module"):
            self._adopt_named(head, part)

    def focus(self, module: Any, name: Any) -> None:
        raise MsprobeException(3, "module_dump is not available with MSAdapter; name the modules in list or scope")

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()
        observed = module_call_in_place(self._kind, self._observed, self._observed_call, self._current)
        patches.plan(self._kind, "__call__", observed)
        with patches.in_force():
            yield

    def _adopt_named(self, head: str, model: Any) -> None:
        self.parameter_names.add(head, model)
        for path, module in named_modules(model):
            if path and self._sites.get(module) is None:
                self._sites.register(f"{head}.{path}.{type(module).__name__}", module, own_parameters)


def named_modules(model: Any) -> Iterable[tuple[str, Any]]:
    """Return the modules of ``model`` with their paths; the model itself comes first, with an empty path."""
    named = model.named_modules()
    return list(named.items() if isinstance(named, dict) else named)
