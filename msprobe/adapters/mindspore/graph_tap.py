"""Cells inside compiled graphs (GRAPH_MODE, ``ms.jit``), seen by taps that are compiled into the graph.

While collecting, the compiler is handed cells whose ``construct`` has taps (``graph_code``), and keeps the graph it
makes of them under a key of its own: outside of start and stop the untapped graph runs, whichever was compiled first.
The cells carry a tap only while the compiler reads them. A graph that cannot be compiled with taps runs without.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import mindspore
from mindspore import context, nn, ops

from msprobe.adapters.mindspore.graph_code import GraphCode, Wanted
from msprobe.adapters.mindspore.graph_sender import GraphSender, make_sender
from msprobe.adapters.mindspore.graph_value import GraphValue
from msprobe.adapters.mindspore.runtime_facts import settle
from msprobe.adapters.mindspore.source_order import parts_called
from msprobe.adapters.mindspore.versions import graph_executors, graph_runners
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.dump.graph_calls import PARAMETERS_GRAD, Spot
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.errors import error_text
from msprobe.core.log import first_time, logger
from msprobe.core.selection.modes import Modes

Known = tuple[weakref.ref[nn.Cell], ModuleSite]
_COMPILE_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, NameError, LookupError, SyntaxError)
_tags = itertools.count()


def in_graph_mode() -> bool:
    return bool(context.get_context("mode") == mindspore.GRAPH_MODE)


class GraphCellTap:
    """Taps the cells of the adopted models wherever they are compiled.

    Args:
        cells: gives the cells with their sites, in the order of the cell tree.
        models: the models that they are of, as they are known so far.
        aside: takes hooks of the dynamic graph off the parameters for a while: the compiler would read them too.
        modes: which phases and sides are recorded.
    """

    def __init__(
        self,
        relay: Relay,
        cells: Callable[[], Sequence[Known]],
        models: Sequence[weakref.ref[nn.Cell]],
        modes: Modes,
        aside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._relay = relay
        self._cells = cells
        self._models = models
        self._modes = modes
        self._aside = aside
        self._spots: list[tuple[Spot, bool]] = []
        self._numbers: dict[tuple[Spot, bool], int] = {}
        self._sites: list[ModuleSite] = []
        self._parts: list[tuple[str, ...]] = []
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

    # ---- what a graph says while it runs, in the thread that runs it ----

    def began(self, site: int) -> int:
        graphs = self._graphs()
        return int((graphs and graphs.begin(self._sites[site], self._parts[site])) or 0)

    def arrived(self, array: Any, place: int, call: int) -> None:
        graphs = self._graphs()
        if graphs is None:
            return
        spot, scalar = self._spots[place]
        value = GraphValue(array, scalar)
        if spot.phase == PARAMETERS_GRAD:
            key, site = spot.path
            graphs.gradient(self._sites[int(site)], str(key), value)
        else:
            graphs.value(call, spot, value)

    def ended(self, call: int) -> None:
        graphs = self._graphs()
        if graphs is not None:
            graphs.end(call)

    def _graphs(self) -> Any:
        observer = self._relay.observer
        return None if observer is None else observer.graphs()

    def _settle(self) -> None:
        """Every graph that was started has run."""
        graphs = self._graphs()
        if graphs is not None and self._sender is not None:
            settle()
            self._sender.settle()
            graphs.ran()

    def _run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(executor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(executor, *args, **kwargs)
            self._settle()
            return result

        return run

    def _models_parts(self) -> tuple[str, ...]:
        """What the model calls; of several models nobody can tell which one runs."""
        models = [model for reference in self._models if (model := reference()) is not None]
        return parts_called(type(models[0])) if len(models) == 1 else ()

    # ---- while the compiler works ----

    def _key(self, original: Callable[..., Any]) -> Callable[..., str]:
        def generate_arguments_key(executor: Any, *args: Any, **kwargs: Any) -> str:
            observer = self._relay.observer
            if observer is not None:
                observer.graph_run(self._models_parts())
            return f"{original(executor, *args, **kwargs)}{self._tag}.{len(self._cells())}"

        return generate_arguments_key

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._compiling:
                return original(executor, *args, **kwargs)
            self._compiling = True
            try:
                with self._aside(), self._tapped():
                    return original(executor, *args, **kwargs)
            except _COMPILE_ERRORS as error:
                fault = error_text(error)
            finally:
                self._compiling = False
            with self._aside():
                compiled = original(executor, *args, **kwargs)  # what was wrong with the user's own code is raised here
            if first_time(("graph without taps", fault)):
                logger.warning("a graph cannot be compiled with taps and is not recorded: %s", fault)
            return compiled

        return compile

    @contextlib.contextmanager
    def _tapped(self) -> Iterator[None]:
        undo: list[Callable[[], None]] = []
        try:
            for reference, site in self._cells():
                cell = reference()
                if cell is not None and not cell.has_bprop:
                    undo += self._tap(cell, site)
            yield
        finally:
            for restore in reversed(undo):
                restore()

    def _tap(self, cell: nn.Cell, site: ModuleSite) -> list[Callable[[], None]]:
        code = self._code = self._code or self._make_code()
        number = self._number(site, parts_called(type(cell)))
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

    def _make_code(self) -> GraphCode:
        modes = self._modes
        wanted = Wanted(
            modes.forward and modes.input,
            modes.forward and modes.output,
            modes.backward and modes.input,
            modes.backward and modes.output,
        )
        self._sender = sender = make_sender(self)
        return GraphCode(sender, ops.constexpr(self._place_function(sender)), wanted)

    def _number(self, site: ModuleSite, parts: tuple[str, ...]) -> int:
        """Cells of one name count together."""
        for number, known in enumerate(self._sites):
            if known.stem == site.stem:
                return number
        self._sites.append(site)
        self._parts.append(parts)
        return len(self._sites) - 1

    def _place_function(self, sender: GraphSender) -> Callable[..., Any]:
        def msprobe_place(phase: str, section: str, scalar: bool, *path: Any) -> Any:
            key = Spot(phase, section, path), scalar
            if key not in self._numbers:
                self._numbers[key] = len(self._spots)
                self._spots.append(key)
            return sender.place(self._numbers[key])

        return msprobe_place
