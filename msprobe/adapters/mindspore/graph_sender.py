"""How values leave a running graph: operators that say when a call begins, what it holds, and when it is over.

On CPU the operators call Python (``ops.Custom`` with a Python function). Ascend has no such operator: there
``ops.TensorDump`` writes files, which are read when the graph is done.

What is sent lies in the way of a value, so data dependency orders it. It has no side effect in the eyes of the
compiler: those keep the order of the program, but change that in which gradients are summed, and so their last bits.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mindspore
import numpy as np
from mindspore import ops

from msprobe.adapters.mindspore.graph_order import CallsByOrder
from msprobe.adapters.mindspore.versions import wait_for_device

_DUMPED = re.compile(r"(begin|value|gradient|end)\.(\d+)\.(\d+)_.*?(\d+)\.npy\Z", re.DOTALL)


class GraphReader(Protocol):
    """Takes what leaves a graph. Calls have numbers, 0 is one that nobody wants to know of."""

    def began(self, site: int) -> int:
        """A call of a module begins; the answer is its number."""
        ...

    def arrived(self, array: Any, place: int, call: int) -> None:
        """A value of a call, to be used before this returns."""
        ...

    def ended(self, call: int) -> None:
        """A call is over."""
        ...


class GraphSender(Protocol):
    """What is compiled into a graph: ``begin(value, site)`` gives the call for ``send(value, place, call)``, for
    ``send_back``, which takes gradients, and for ``end(value, call)``. ``value`` says when it happens: when that is
    known. ``blank`` makes the gradient of a place or a call, which have none.
    """

    begin: Callable[..., Any]
    send: Callable[..., Any]
    send_back: Callable[..., Any]
    end: Callable[..., Any]
    blank: Callable[..., Any]

    def place(self, number: int) -> Any:
        """The constant that stands for a place or a site in the graph."""
        ...

    def settle(self) -> None:
        """The graph has run: nothing may be on its way any more."""
        ...


def make_sender(reader: GraphReader) -> GraphSender:
    """The sender for the device of this process."""
    on_ascend = mindspore.get_context("device_target") == "Ascend"
    return TensorDumpSender(reader) if on_ascend else CallingSender(reader)


class CallingSender:
    """Calls Python while the graph runs (CPU)."""

    def __init__(self, reader: GraphReader) -> None:
        def msprobe_begin(array: Any, site: Any) -> Any:
            return np.asarray(reader.began(int(site)), np.int32)

        def msprobe_send(array: Any, place: Any, call: Any) -> Any:
            reader.arrived(array, int(place), int(call))
            return call

        def msprobe_end(array: Any, call: Any) -> Any:
            reader.ended(int(call))
            return call

        self.begin = _custom(msprobe_begin)
        self.send = self.send_back = _custom(msprobe_send)
        self.end = _custom(msprobe_end)
        self.blank = ops.zeros_like

    def place(self, number: int) -> Any:
        return mindspore.Tensor(number, mindspore.int32)

    def settle(self) -> None:
        """Every value came before the graph was done."""


class TensorDumpSender:
    """Has the device write files, named by place and site, and reads them afterwards. Not checked: it takes an Ascend.

    The runtime adds the dtype and a running number to the name: smaller numbers came first. In the graph a call is
    known by its site only; which one it is follows from the order.
    """

    def __init__(self, reader: GraphReader) -> None:
        self._reader = reader
        self._holder = tempfile.TemporaryDirectory(prefix="msprobe-graph-")
        self._folder = Path(self._holder.name)
        folder, mark = str(self._folder), mindspore.Tensor([0], mindspore.int32)
        dump = ops.TensorDump()

        def msprobe_begin(value: Any, site: Any) -> Any:
            dump(folder + "/begin.0." + site, mark)
            return site

        def msprobe_send(value: Any, place: Any, site: Any) -> Any:
            return dump(folder + "/value." + place + "." + site, value)

        def msprobe_send_back(value: Any, place: Any, site: Any) -> Any:
            return dump(folder + "/gradient." + place + "." + site, value)

        def msprobe_end(value: Any, site: Any) -> Any:
            return dump(folder + "/end.0." + site, mark)

        def msprobe_blank(place: Any) -> Any:
            return place

        self.begin, self.end, self.blank = msprobe_begin, msprobe_end, msprobe_blank
        self.send, self.send_back = msprobe_send, msprobe_send_back

    def place(self, number: int) -> Any:
        return str(number)

    def settle(self) -> None:
        wait_for_device()
        found = [(path, match) for path in self._folder.iterdir() if (match := _DUMPED.match(path.name))]
        calls = CallsByOrder()
        for path, match in sorted(found, key=lambda one: int(one[1][4])):
            self._replay(calls, match[1], (int(match[2]), int(match[3])), path)
            path.unlink()

    def _replay(self, calls: CallsByOrder, kind: str, what: tuple[int, int], path: Path) -> None:
        reader, (place, site) = self._reader, what
        if kind == "begin":
            calls.began(site, reader.began(site))
        elif kind == "end":
            reader.ended(calls.ended(site))
        else:
            call = calls.running(site) if kind == "value" else calls.of_gradient(site, place)
            reader.arrived(np.load(path, allow_pickle=False), place, call)


def _custom(function: Callable[..., Any]) -> Any:
    """An operator that calls ``function``; it gives back a number, as its last argument is."""
    return ops.Custom(function, out_shape=_last, out_dtype=_last, func_type="pyfunc")


def _last(*given: Any) -> Any:
    return given[-1]
