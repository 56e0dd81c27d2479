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
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.dump.assembly import FORWARD, Branch, Spot
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.errors import said
from msprobe.core.log import logger, once
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
        aside: takes hooks of the dynamic graph off the parameters for a while: the compiler would read them too.
        modes: which phases and sides are recorded.
    """

    def __init__(
        self,
        relay: Relay,
        cells: Callable[[], Sequence[Known]],
        modes: Modes,
        aside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._relay = relay
        self._cells = cells
        self._modes = modes
        self._aside = aside
        self._spots: list[tuple[Spot, bool]] = []
        self._numbers: dict[Spot, int] = {}
        self._stems: list[str] = []
        self._sender: GraphSender | None = None
        self._code: GraphCode | None = None
        self._run = 0
        self._compiling = False
        self._tag = f".msprobe{next(_tags)}"
        self._patches = Patches()
        for executor in _executors():
            self._patches.plan(executor, "compile", self._compile(executor.compile))
            self._patches.plan(executor, "generate_arguments_key", self._key(executor.generate_arguments_key))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        try:
            with self._patches.in_force():
                yield
        finally:
            observer = self._relay.observer
            if self._sender is not None and observer is not None:
                settle()  # every graph that was started has run
                self._sender.settle()
                observer.graph_end(self._tree())

    def arrived(self, array: Any, place: int) -> None:
        """A graph hands over a value; called by the thread that runs it."""
        observer = self._relay.observer
        if observer is not None:
            spot, scalar = self._spots[place]
            observer.graph_value(spot, self._run, GraphValue(array, scalar))

    # ---- while the compiler works ----

    def _key(self, original: Callable[..., Any]) -> Callable[..., str]:
        def generate_arguments_key(executor: Any, *args: Any, **kwargs: Any) -> str:
            self._run += 1
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
                fault = said(error)
            finally:
                self._compiling = False
            with self._aside():
                compiled = original(executor, *args, **kwargs)  # what was wrong with the user's own code is raised here
            if once(("graph without taps", fault)):
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
        if site.stem not in self._stems:
            self._stems.append(site.stem)
        number = self._stems.index(site.stem)
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
        self._sender = sender = make_sender(self.arrived)
        return GraphCode(sender, ops.constexpr(self._place_function(sender)), wanted)

    def _place_function(self, sender: GraphSender) -> Callable[..., Any]:
        def msprobe_place(phase: str, section: str, number: int, scalar: bool, *path: Any) -> Any:
            spare = phase == "spare"
            spot = Spot(self._stems[number], FORWARD if spare else phase, section, path, spare)
            if spot not in self._numbers:
                self._numbers[spot] = len(self._spots)
                self._spots.append((spot, scalar))
            return sender.place(self._numbers[spot])

        return msprobe_place

    def _tree(self) -> list[Branch]:
        stems = {site.stem.rpartition(".")[0]: site.stem for _, site in self._cells()}
        return [
            Branch(stem, [stems[above] for above in _above(path) if above in stems]) for path, stem in stems.items()
        ]


def _above(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _executors() -> list[Any]:
    """The classes of MindSpore that compile: one for cells in GRAPH_MODE, one for ``ms.jit``."""
    from mindspore import _c_expression

    names = ("GraphExecutor_", "JitExecutor_")
    return [getattr(_c_expression, name) for name in names if hasattr(_c_expression, name)]
