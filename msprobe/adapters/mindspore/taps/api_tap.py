"""Observe the functions of MindSpore, those that a user registers, and operators that are called as objects.

``MindSporeApiTap`` wraps the functions of ops, mint, mint.nn.functional and Tensor. While a jit function is compiled,
every replaced attribute is the original again.

``PrimitiveTap`` observes operators that are called as objects (primitives), and not through functions of ``ops`` and
``mint``. Primitives that are attributes of cells (``self.matmul = ops.MatMul()``) are named after them:
``Primitive.matmul.MatMul.0``. Others, created inside ``construct`` or stored anywhere else, are named after their
class: ``Primitive.MatMul.0``. A primitive of a general class (``ops.Primitive("ReLU")``) has the name of its operator
in place of that of the class. Calls by MindSpore's own functions are not recorded; its layers count as the model.
Without a model nothing is recorded.

The ``__call__`` of the classes of primitives is replaced while collecting and looks each instance up. No cell and no
primitive is changed, so copies have the originals. The compiler does not read the ``__call__`` of a primitive.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mindspore import nn, ops

from msprobe.adapters.mindspore.taps.jit_tap import JitTap
from msprobe.adapters.mindspore.taps.memory_tap import OWNERS, MindSporeMemoryTap
from msprobe.core.capture.observer import CallSite, CurrentObserver, OperatorSite
from msprobe.core.capture.patched_apis import ListedApis, WrappedApis
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import observe_with_output, wrap
from msprobe.core.dump.tasks.checked_calls import Inside, checked_inside
from msprobe.core.interruption import let_through

_CONSTANT = "constexpr_prim"  # Python functions that the compiler is to run itself
_FRAMEWORK, _LAYERS = "mindspore.", "mindspore.nn."


class MindSporeApiTap(WrappedApis):
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix.
        passes_risk: the risk test over API names; an API that fails it is counted but not recorded.
        watch: what holds the observer of the present step, and the state of the present thread.
        cells: returns the cells whose primitives are recorded by name, beside all other primitives; None when
            primitives are below the functions that are recorded.
        listed: the APIs that the configuration adds.
        memory: observes the functions that make and write memory; None where nothing is to know it.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Sequence[str]]],
        passes_risk: Callable[[str], bool],
        watch: tuple[CurrentObserver, ThreadState],
        cells: Callable[[], Iterable[Any]] | None,
        listed: ListedApis | None = None,
        memory: MindSporeMemoryTap | None = None,
    ) -> None:
        super().__init__(passes_risk, *watch, listed)
        self._primitives = None if cells is None else PrimitiveTap(cells, self.site, self._inside_call, *watch)
        self._jit = JitTap(self._patches, self.site, *watch)
        self._memory = memory
        for table in tables:
            self._plan_table(table, OWNERS)
            if memory is not None:
                memory.plan(self._patches, table)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        primitives = contextlib.nullcontext() if self._primitives is None else self._primitives.attach()
        with super().attach(), primitives, self._jit.attach():
            yield

    def _inside_call(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        return original if self._memory is None else self._memory.inside(site, original)


class CheckedApiTap(MindSporeApiTap):
    """Observes calls so that they can be checked while the program runs."""

    def _inside_call(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        return checked_inside(super()._inside_call, self._thread)(site, original)


class PrimitiveTap:
    """Finds primitives and observes their calls.

    Args:
        cells: returns the cells of the models, whose attributes name primitives; it is called at each ``attach``.
        site: returns the counter of an API by prefix and name.
        inside: returns what runs inside an observed call of a function.
        current: holds the observer of the present step.
        thread: the state of the present thread.
    """

    def __init__(
        self,
        cells: Callable[[], Iterable[nn.Cell]],
        site: Callable[[str, str], CallSite],
        inside: Inside,
        current: CurrentObserver,
        thread: ThreadState,
    ) -> None:
        self._cells = cells
        self._site = site
        self._inside = inside
        self._patches = Patches()
        self._current = current
        self._thread = thread
        self._calls: dict[
            int, tuple[Any, Callable[..., Any]]
        ] = {}  # the primitive itself keeps its id from being reused
        self._classes: set[type] = set()
        self._modules_seen = -1
        self._is_primitive: dict[type, bool] = {}  # by type, because every attribute of every cell is looked at

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Observe the primitives inside this context; do nothing without cells."""
        cells = list(self._cells())
        if cells and len(sys.modules) != self._modules_seen:
            self._modules_seen = len(sys.modules)
            self._plan(ops.Primitive)
        self._find(cells)
        with self._patches.in_force() if cells else contextlib.nullcontext():
            yield

    def _find(self, cells: Iterable[nn.Cell]) -> None:
        """Find primitives in cells that are new since the last time."""
        is_primitive = self._is_primitive
        for cell in cells:
            for name, value in list(vars(cell).items()):
                kind = type(value)
                primitive = is_primitive.get(kind)
                if primitive is None:
                    primitive = is_primitive[kind] = issubclass(kind, ops.Primitive)
                if primitive and id(value) not in self._calls:
                    self._add(name, value)

    def _add(self, name: str, primitive: Any) -> None:
        kind = type(primitive)
        self._plan(kind)
        site = self._site("Primitive", f"{name}.{_operator(primitive)}")
        original = self._inside(site, functools.partial(_original(kind), primitive))
        site_of_it = OperatorSite(site, _attributes(primitive))
        self._calls[id(primitive)] = primitive, wrap(original, site_of_it, self._current, self._thread)

    def _plan(self, kind: type) -> None:
        """Plan the patches of a class and of its subclasses, once each."""
        if kind not in self._classes:
            self._classes.add(kind)
            original = vars(kind).get("__call__")
            if callable(original):
                self._patches.plan(kind, "__call__", self._observed(original))
        subclasses: list[type] = kind.__subclasses__()
        for subclass in subclasses:
            if not _is_constant(subclass):
                self._plan(subclass)

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        calls, current, thread, site_of, inside = self._calls, self._current, self._thread, self._site, self._inside

        @functools.wraps(original)
        def call(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            observer = current.observer
            if thread.busy or observer is None:
                return original(primitive, *args, **kwargs)
            entry = calls.get(id(primitive))
            if entry is not None:
                return entry[1](*args, **kwargs)
            if _is_framework_function(sys._getframe(1)) or _CONSTANT in primitive.attrs:
                return original(primitive, *args, **kwargs)
            site = site_of("Primitive", _operator(primitive))
            run = functools.partial(inside(site, functools.partial(original, primitive)), *args, **kwargs)
            site_of_it = OperatorSite(site, _attributes(primitive))
            return observe_with_output(run, site_of_it, (args, kwargs), _itself, (observer, thread))

        call.__msprobe_original__ = original  # type: ignore[attr-defined]
        return call


def _is_constant(kind: type) -> bool:
    """Return whether ``ops.constexpr`` or a similar function made the class.

    There is one such class for each constant function, a third of all classes. Only those that are attributes of a cell
    count as operators.
    """
    return kind.__module__ == ops.primitive.__name__ and "<locals>" in kind.__qualname__


def _operator(primitive: Any) -> str:
    """Return the name of the class; of the operator where the class is a base class of MindSpore."""
    kind: Any = type(primitive)
    name = primitive.name if kind.__module__ == ops.Primitive.__module__ else ""
    return name if isinstance(name, str) and name.isidentifier() else kind.__name__


def _attributes(primitive: Any) -> Mapping[str, Any] | None:
    """Return the arguments that made an operator, by name; of one of a general class its attributes.

    Where a class calls the constructor of its base class once more, as ``LRN`` does, MindSpore forgets the noted ones;
    the object still has each under its name. None where it has not.
    """
    kind: Any = type(primitive)
    if kind.__module__ == ops.Primitive.__module__:
        general: Mapping[str, Any] = primitive.attrs
        return general
    noted: Mapping[str, Any] = primitive.init_attrs
    parameters = _parameters(kind)
    if noted.keys() <= set(parameters):
        return noted
    kept = vars(primitive)
    return {name: kept[name] for name in parameters} if kept.keys() >= set(parameters) else None


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(kind).parameters)
    except (TypeError, ValueError) as error:  # of a class without a signature nothing is known
        let_through(error)
        return ()


def _original(kind: type) -> Callable[..., Any]:
    """Return the own or inherited ``__call__`` of the class without the wrapper."""
    call: Any = kind.__call__
    original: Callable[..., Any] = getattr(call, "__msprobe_original__", call)
    return original


def _is_framework_function(caller: Any) -> bool:
    """Return whether the frame is a function of MindSpore itself (compiler, indexing, ``ops``), and no layer."""
    module = str(caller.f_globals.get("__name__", ""))
    return module.startswith(_FRAMEWORK) and not module.startswith(_LAYERS)


def _itself(result: Any) -> Any:
    return result
