"""Send values out of a running graph: operators that report the begin of a call, its values, and its end.

On a CPU the operators call Python (``CallingSender``: ``ops.Custom`` with a Python function). Ascend has no such
operator: there ``ops.TensorDump`` writes files, which are read when the graph has run (``TensorDumpSender``). In the
files a call is identified by its cell only, so ``CallOrder`` finds the call of a value from the order of the values.

An operator that sends is put into the data flow of a value, so data dependencies order it. The compiler sees no side
effect in it: side effects would keep the order of the program, but would change the order in which gradients are
summed, and so their last bits.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mindspore
import numpy as np
from mindspore import ops

from msprobe.adapters.mindspore.versions import wait_for_device

_DUMPED = re.compile(r"(begin|value|gradient|end)\.(\d+)\.(\d+)_.*?(\d+)\.npy\Z", re.DOTALL)


def make_sender(reader: GraphReader) -> GraphSender:
    """Return the sender for the device of this process."""
    on_ascend = mindspore.get_context("device_target") == "Ascend"
    return TensorDumpSender(reader) if on_ascend else CallingSender(reader)


class GraphSender(Protocol):
    """The operators that are compiled into a graph.

    ``begin(value, site)`` returns the call for ``send(value, place, call)``, for ``send_back``, which takes gradients,
    and for ``end(value, call)``. Each runs as soon as ``value`` is computed. ``blank`` makes an empty gradient for a
    place or a call, which have no gradient.
    """

    begin: Callable[..., Any]
    send: Callable[..., Any]
    send_back: Callable[..., Any]
    end: Callable[..., Any]
    blank: Callable[..., Any]

    def place(self, number: int) -> Any:
        """Return the constant that stands for a place or a site in the graph."""
        ...

    def settle(self) -> None:
        """Report everything that was sent, after the graph has run."""
        ...


class GraphReader(Protocol):
    """Takes what leaves a graph. Calls have numbers; 0 is a call that is not recorded."""

    def began(self, site: int) -> int:
        """Return the number of a call of a module that begins."""
        ...

    def arrived(self, array: Any, place: int, call: int) -> None:
        """Take a value of a call. Its memory belongs to the graph, so it must be used before this returns."""
        ...

    def ended(self, call: int) -> None:
        """Note that a call is over."""
        ...


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
        """Return the number as a tensor."""
        return mindspore.Tensor(number, mindspore.int32)

    def settle(self) -> None:
        """Do nothing: every value has arrived when the graph has run."""


def _custom(function: Callable[..., Any]) -> Any:
    """Return an operator that calls ``function``; its result has shape and dtype of its last argument, a number."""
    return ops.Custom(function, out_shape=_last, out_dtype=_last, func_type="pyfunc")


def _last(*arguments: Any) -> Any:
    return arguments[-1]


class TensorDumpSender:
    """Makes the device write files, named by place and site, and reads them afterwards. It was not tested on an Ascend.

    The runtime adds the dtype and a running number to the name; smaller numbers were written first. In the graph a call
    is identified by its site only; ``CallOrder`` returns the call.
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
        """Return the number as the text that stands for it in file names."""
        return str(number)

    def settle(self) -> None:
        """Wait for the device, and report what its files hold, in the order in which they were written."""
        wait_for_device()
        files = [(path, match) for path in self._folder.iterdir() if (match := _DUMPED.match(path.name))]
        calls = CallOrder()
        for path, match in sorted(files, key=lambda pair: int(pair[1][4])):
            self._replay(calls, match[1], (int(match[2]), int(match[3])), path)
            path.unlink()

    def _replay(self, calls: CallOrder, kind: str, numbers: tuple[int, int], path: Path) -> None:
        reader, (place, site) = self._reader, numbers
        if kind == "begin":
            calls.began(site, reader.began(site))
        elif kind == "end":
            reader.ended(calls.ended(site))
        else:
            call = calls.running(site) if kind == "value" else calls.for_gradient(site, place)
            reader.arrived(np.load(path, allow_pickle=False), place, call)


class CallOrder:
    """The calls of each cell in the order in which they began.

    A forward value belongs to the running call of its cell. Gradients are assumed to arrive for the last call first.
    """

    def __init__(self) -> None:
        self._all: dict[int, list[int]] = defaultdict(list)
        self._running: dict[int, list[int]] = defaultdict(list)
        self._without_gradient: dict[tuple[int, int], list[int]] = {}

    def began(self, site: int, call: int) -> None:
        """Note that a call of the cell ``site`` has begun."""
        self._all[site].append(call)
        self._running[site].append(call)

    def ended(self, site: int) -> int:
        """Return the call that is over; 0 when none was running."""
        return self._running[site].pop() if self._running[site] else 0

    def running(self, site: int) -> int:
        """Return the running call of the cell; 0 when there is none."""
        return self._running[site][-1] if self._running[site] else 0

    def for_gradient(self, site: int, place: int) -> int:
        """Return the call whose gradient at ``place`` arrives now; 0 when every call has got this gradient."""
        calls = self._without_gradient.setdefault((site, place), list(self._all[site]))
        return calls.pop() if calls else 0
