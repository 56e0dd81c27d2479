"""The operators that cells hold as attributes (``self.matmul = ops.MatMul()``): ``Primitive.matmul.MatMul.0.forward``.

Cells call them directly, past every function of ``ops`` and ``mint``. Their classes' ``__call__`` is replaced while
collecting, and looks each instance up: no cell and no primitive is touched, so copies and the compiler see the
originals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mindspore import nn, ops

from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap


class PrimitiveTap:
    """Finds the primitives of cells and observes their calls.

    Args:
        cells: gives the cells whose primitives are recorded, asked at each ``find``.
        site: gives the counter of an API by prefix and name.
        patches: where the replaced ``__call__`` go; switched on and off with everything else.
    """

    def __init__(
        self,
        cells: Callable[[], Iterable[nn.Cell]],
        site: Callable[[str, str], CallSite],
        patches: Patches,
        relay: Relay,
        thread: ThreadState,
    ) -> None:
        self._cells = cells
        self._site = site
        self._patches = patches
        self._relay = relay
        self._thread = thread
        self._calls: dict[
            int, tuple[Any, Callable[..., Any]]
        ] = {}  # the primitive itself keeps its id from being reused
        self._classes: set[type] = set()
        self._primitive: dict[type, bool] = {}  # every attribute of every cell is looked at: its type is asked once

    def find(self) -> None:
        """Look for primitives that have come since the last time."""
        known = self._primitive
        for cell in self._cells():
            for name, value in list(vars(cell).items()):
                kind = type(value)
                primitive = known.get(kind)
                if primitive is None:
                    primitive = known[kind] = issubclass(kind, ops.Primitive)
                if primitive and id(value) not in self._calls:
                    self._add(name, value)

    def _add(self, name: str, primitive: Any) -> None:
        kind = type(primitive)
        original = _call_of(kind)
        if original is None:
            return
        site = self._site("Primitive", f"{name}.{kind.__name__}")
        bare = original.__get__(primitive, kind)
        self._calls[id(primitive)] = primitive, wrap(bare, site, self._relay, self._thread)
        if kind not in self._classes:
            self._classes.add(kind)
            self._patches.plan(kind, "__call__", self._lookup(original))

    def _lookup(self, original: Callable[..., Any]) -> Callable[..., Any]:
        calls = self._calls

        def call(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            known = calls.get(id(primitive))
            return original(primitive, *args, **kwargs) if known is None else known[1](*args, **kwargs)

        return call


def _call_of(kind: type) -> Any:
    """The class's own or inherited ``__call__``, as it is without any of our wrappers."""
    call = getattr(kind, "__call__", None)  # noqa: B004
    return call if callable(call) else None
