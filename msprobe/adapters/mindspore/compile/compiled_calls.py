"""Calls that run inside compiled graphs (GRAPH_MODE, ``ms.jit``), reported by taps that are compiled into the graph.

While collecting, the compiler gets cells whose ``construct`` has taps (``compiled_probes``). It keeps the graph of such
cells under a separate key: outside of start and stop the graph without taps runs, whichever was compiled first. The
cells have a tap only while the compiler reads them. A graph that cannot be compiled with taps runs without them.

A compiled graph has no order of calls that do not depend on each other; the source of a cell has one, which
``parts_called`` returns.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import textwrap
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from mindspore import nn, ops

from msprobe.adapters.mindspore.compile.compiled_probes import GraphCode, TappedTensors
from msprobe.adapters.mindspore.compile.value_transport import GraphSender, make_sender
from msprobe.adapters.mindspore.runtime_facts import in_graph_mode, settle
from msprobe.adapters.mindspore.tensors.values import GraphValue
from msprobe.adapters.mindspore.versions import graph_executors, graph_runners
from msprobe.core.backend.protocols import GraphReceiver
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.dump.record.graph_calls import BACKWARD, PARAMETERS_GRAD, Spot
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.selection import DataMode

_COMPILE_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, NameError, LookupError, SyntaxError)
_tags = itertools.count()

_parts_by_class: weakref.WeakKeyDictionary[type[Any], tuple[str, ...]] = weakref.WeakKeyDictionary()


class MindSporeGraphTap:
    """Taps the cells of the adopted models wherever they are compiled. Implements ``GraphTap``.

    Args:
        current: holds the observer of the present step.
        cells: the cells of the models.
        modes: which phases and sides are recorded.
    """

    def __init__(self, current: CurrentObserver, cells: AdoptedCells, modes: DataMode) -> None:
        self._current = current
        self._cells = cells
        self._modes = modes
        self._spots: list[tuple[Spot, bool]] = []
        self._spot_numbers: dict[tuple[Spot, bool], int] = {}
        self._sites: list[NamedModule] = []
        self._parts: list[tuple[str, ...]] = []
        self._own_gradients: set[int] = set()
        self._sender: GraphSender | None = None
        self._code: GraphCode | None = None
        self._compiling = False
        self._tag = f".msprobe{next(_tags)}"
        self._patches = Patches()
        for executor in graph_executors():
            self._patches.plan(executor, "compile", self._compile(executor.compile))
            self._patches.plan(executor, "generate_arguments_key", self._key(executor.generate_arguments_key))
        for owner, name in graph_runners():
            self._patches.plan(owner, name, self._run(getattr(owner, name)))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        try:
            with self._patches.in_force():
                yield
        finally:
            self._settle()
            self._tell_of_unmeasured()

    # ---- called by a graph while it runs, in the thread that runs it (``GraphReader``) ----

    def began(self, site: int) -> int:
        receiver = self._receiver()
        if receiver is None:
            return 0
        if site in self._own_gradients:
            receiver.not_measured(self._sites[site], BACKWARD)
        return receiver.begin(self._sites[site], self._parts[site]) or 0

    def arrived(self, array: Any, spot_number: int, call: int) -> None:
        receiver = self._receiver()
        if receiver is None:
            return
        spot, scalar = self._spots[spot_number]
        value = GraphValue(array, scalar)
        if spot.phase == PARAMETERS_GRAD:
            key, site = spot.path
            receiver.gradient(self._sites[int(site)], str(key), value)
        else:
            receiver.value(call, spot, value)

    def ended(self, call: int) -> None:
        receiver = self._receiver()
        if receiver is not None:
            receiver.end(call)

    def _receiver(self) -> GraphReceiver | None:
        observer = self._current.late_observer
        return None if observer is None else observer.graphs()

    def _settle(self) -> None:
        """Wait until every graph that was started has run."""
        receiver = self._receiver()
        if receiver is not None and self._sender is not None:
            settle()
            self._sender.settle()
            receiver.ran()

    def _tell_of_unmeasured(self) -> None:
        """Say which cells the source calls, in cells that ran, of which no call ran; the log has each once."""
        receiver = self._receiver()
        paths = {".".join(site.stem.split(".")[1:-1]): number for number, site in enumerate(self._sites)}
        any_called = any(site.called for site in self._sites)
        for path, number in paths.items():
            parent, _, name = path.rpartition(".")
            around = paths.get(parent)
            runs = any_called if around is None else self._sites[around].called
            parts = self._parts_of_model() if around is None else self._parts[around]
            site = self._sites[number]
            if not runs or name not in parts or site.called:
                continue
            if receiver is not None:
                receiver.not_measured(site)
            if first_time(("not measured", site.stem)):
                logger.info(
                    "not measured: %s. The source calls it, and the compiled graph did not run it: its result is not "
                    "used, so that the compiler removed it, or its branch was not taken",
                    site.stem,
                )

    def _run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(executor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(executor, *args, **kwargs)
            self._settle()
            return result

        return run

    def _parts_of_model(self) -> tuple[str, ...]:
        """Return the parts that the model calls; nothing for several models, as it is not known which one runs."""
        models = self._cells.models()
        return parts_called(type(models[0])) if len(models) == 1 else ()

    # ---- while the compiler works ----

    def _key(self, original: Callable[..., Any]) -> Callable[..., str]:
        @functools.wraps(original)
        def generate_arguments_key(executor: Any, *args: Any, **kwargs: Any) -> str:
            observer = self._current.observer
            if observer is not None:
                observer.graph_run(self._parts_of_model())
            return f"{original(executor, *args, **kwargs)}{self._tag}.{len(self._cells.named_cells())}"

        return generate_arguments_key

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._compiling:
                return original(executor, *args, **kwargs)
            self._compiling = True
            try:
                with self._cells.without_gradient_hooks(), self._tapped():
                    return original(executor, *args, **kwargs)
            except _COMPILE_ERRORS as error:
                fault = error_text(error)
            finally:
                self._compiling = False
            with self._cells.without_gradient_hooks():
                compiled = original(executor, *args, **kwargs)  # a fault in the user's own code is raised here
            if first_time(("graph without taps", fault)):
                logger.warning("a graph cannot be compiled with taps and is not recorded: %s", fault)
            return compiled

        return compile

    @contextlib.contextmanager
    def _tapped(self) -> Iterator[None]:
        undo: list[Callable[[], None]] = []
        try:
            for reference, site in self._cells.named_cells():
                cell = reference()
                if cell is None:
                    continue
                undo += self._tap(cell, site)
            yield
        finally:
            for restore in reversed(undo):
                restore()

    def _tap(self, cell: nn.Cell, site: NamedModule) -> list[Callable[[], None]]:
        code = self._code = self._code or self._make_code()
        number = self._number(site, parts_called(type(cell)))
        if cell.has_bprop and self._modes.backward:
            self._note_own_gradients(number)
        parameters = tuple(site.parameters())
        own = vars(cell)
        before = own.get("construct")
        tapped = code.construct(cell, number, parameters)
        own["construct"] = tapped

        def restore() -> None:
            if before is None:
                own.pop("construct", None)
            else:
                own["construct"] = before

        undo = [restore]
        if self._modes.parameters_grad and in_graph_mode():  # a dynamic graph meets them outside of what is compiled
            for key, parameter in parameters:
                if parameter.requires_grad:
                    hook = code.parameter_gradient(number, key, scalar=parameter.ndim == 0)
                    undo.append(parameter.register_hook(hook).remove)
        return undo

    def _note_own_gradients(self, number: int) -> None:
        """Note that the gradients of calls of a cell with a bprop cannot be recorded."""
        self._own_gradients.add(number)
        stem = self._sites[number].stem
        if first_time(("not measured", "bprop", stem)):
            logger.info(
                "not measured: the gradients of calls of %s. The cell has a bprop of its own, which the graph runs in "
                "place of what gradients are recorded by; a dynamic graph records them",
                stem,
            )

    def _make_code(self) -> GraphCode:
        modes = self._modes
        tapped = TappedTensors(
            modes.forward and modes.input,
            modes.forward and modes.output,
            modes.backward and modes.input,
            modes.backward and modes.output,
        )
        self._sender = sender = make_sender(self)
        return GraphCode(sender, ops.constexpr(self._place_function(sender)), tapped)

    def _number(self, site: NamedModule, parts: tuple[str, ...]) -> int:
        """Return the number of the cell's name; cells of one name share it."""
        for number, other in enumerate(self._sites):
            if other.stem == site.stem:
                return number
        self._sites.append(site)
        self._parts.append(parts)
        return len(self._sites) - 1

    def _place_function(self, sender: GraphSender) -> Callable[..., Any]:
        def msprobe_place(phase: str, section: str, scalar: bool, *path: Any) -> Any:
            key = Spot(phase, section, path), scalar
            if key not in self._spot_numbers:
                self._spot_numbers[key] = len(self._spots)
                self._spots.append(key)
            return sender.place(self._spot_numbers[key])

        return msprobe_place


class AdoptedCells(Protocol):
    """What the tap asks of the module tap: the cells of the models given to ``start``."""

    def named_cells(self) -> Sequence[tuple[weakref.ref[nn.Cell], NamedModule]]:
        """Return the cells with their names, in the order of the cell tree."""
        ...

    def models(self) -> Sequence[nn.Cell]:
        """Return the models."""
        ...

    def without_gradient_hooks(self) -> AbstractContextManager[None]:
        """Take the hooks of the dynamic graph off the parameters inside the returned context."""
        ...


def parts_called(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the parts that ``construct`` of a class of cells calls as ``self.NAME(...)``.

    They are in the order in which Python evaluates them. Without source the result is empty.
    """
    if kind not in _parts_by_class:
        _parts_by_class[kind] = _read(kind)
    return _parts_by_class[kind]


def _read(kind: type[Any]) -> tuple[str, ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.construct)))
    except (OSError, TypeError, SyntaxError, AttributeError) as error:
        let_through(error)
        return ()
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or not function.args.args:
        return ()
    return tuple(_called(function, function.args.args[0].arg))


def _called(node: ast.AST, self_name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        yield from _called(child, self_name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == self_name:
            yield node.func.attr
