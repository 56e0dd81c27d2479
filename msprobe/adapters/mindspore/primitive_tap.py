"""Operators called as objects, past every function of ``ops`` and ``mint``.

Those that cells hold as attributes (``self.matmul = ops.MatMul()``) are named by these: ``Primitive.matmul.MatMul.0``.
Others, made inside ``construct`` or kept anywhere else, are named by their class: ``Primitive.MatMul.0``. What
MindSpore's own functions call is their business; its layers count as the model. Without a model nothing is recorded.

The ``__call__`` of their classes is replaced while collecting, and looks each instance up: no cell and no primitive is
touched, so copies see the originals. The compiler reads no ``__call__`` of a primitive.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mindspore import nn, ops

from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.shown import observe_with_output
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap

_CONSTANT = "constexpr_prim"  # Python functions that the compiler is to run itself
_FRAMEWORK, _LAYERS = "mindspore.", "mindspore.nn."


class PrimitiveTap:
    """Finds primitives and observes their calls.

    Args:
        cells: gives the cells of the models, whose attributes name primitives, asked at each ``attach``.
        site: gives the counter of an API by prefix and name.
    """

    def __init__(
        self,
        cells: Callable[[], Iterable[nn.Cell]],
        site: Callable[[str, str], CallSite],
        relay: Relay,
        thread: ThreadState,
    ) -> None:
        self._cells = cells
        self._site = site
        self._patches = Patches()
        self._relay = relay
        self._thread = thread
        self._calls: dict[
            int, tuple[Any, Callable[..., Any]]
        ] = {}  # the primitive itself keeps its id from being reused
        self._classes: set[type] = set()
        self._modules_seen = -1
        self._primitive: dict[type, bool] = {}  # every attribute of every cell is looked at: its type is asked once

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        cells = list(self._cells())
        if cells and len(sys.modules) != self._modules_seen:
            self._modules_seen = len(sys.modules)
            self._plan(ops.Primitive)
        self._find(cells)
        with self._patches.in_force() if cells else contextlib.nullcontext():
            yield

    def _find(self, cells: Iterable[nn.Cell]) -> None:
        """Look for primitives of cells that have come since the last time."""
        known = self._primitive
        for cell in cells:
            for name, value in list(vars(cell).items()):
                kind = type(value)
                primitive = known.get(kind)
                if primitive is None:
                    primitive = known[kind] = issubclass(kind, ops.Primitive)
                if primitive and id(value) not in self._calls:
                    self._add(name, value)

    def _add(self, name: str, primitive: Any) -> None:
        kind = type(primitive)
        self._plan(kind)
        site = self._site("Primitive", f"{name}.{kind.__name__}")
        bare = functools.partial(_original(kind), primitive)
        self._calls[id(primitive)] = primitive, wrap(bare, site, self._relay, self._thread)

    def _plan(self, kind: type) -> None:
        """Plan the calls of a class and of those below it, once each."""
        if kind not in self._classes:
            self._classes.add(kind)
            original = vars(kind).get("__call__")
            if callable(original):
                self._patches.plan(kind, "__call__", self._observed(original))
        below: list[type] = kind.__subclasses__()
        for inner in below:
            if not _is_constant(inner):
                self._plan(inner)

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        calls, relay, thread, site_of = self._calls, self._relay, self._thread, self._site

        @functools.wraps(original)
        def call(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            observer = relay.observer
            if thread.busy or observer is None:
                return original(primitive, *args, **kwargs)
            known = calls.get(id(primitive))
            if known is not None:
                return known[1](*args, **kwargs)
            if _is_business_of(sys._getframe(1)) or _CONSTANT in primitive.attrs:
                return original(primitive, *args, **kwargs)
            site = site_of("Primitive", type(primitive).__name__)
            run = functools.partial(original, primitive, *args, **kwargs)
            return observe_with_output(run, site, (args, kwargs), _itself, (observer, thread))

        call.__msprobe_original__ = original  # type: ignore[attr-defined]
        return call


def _is_constant(kind: type) -> bool:
    """Whether ``ops.constexpr`` and its like have made the class, one for each function: a third of all classes. Only
    those that a cell holds by a name count as operators.
    """
    return kind.__module__ == ops.primitive.__name__ and "<locals>" in kind.__qualname__


def _original(kind: type) -> Callable[..., Any]:
    """The class's own or inherited ``__call__``, as it is without any of our wrappers."""
    call: Any = kind.__call__
    original: Callable[..., Any] = getattr(call, "__msprobe_original__", call)
    return original


def _is_business_of(caller: Any) -> bool:
    """Whether MindSpore's own functions are at work: the compiler's tables, indexing, what ``ops`` is made of."""
    module = str(caller.f_globals.get("__name__", ""))
    return module.startswith(_FRAMEWORK) and not module.startswith(_LAYERS)


def _itself(result: Any) -> Any:
    return result
