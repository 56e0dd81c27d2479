"""How a value leaves a running graph: one capability, an operator that takes a tensor and the constant of its place.

On CPU the operator calls Python (``ops.Custom`` with a Python function). Ascend has no such operator: there
``ops.TensorDump`` writes files, which are read when the graph is done.
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

Arrived = Callable[[Any, int], None]
_DUMPED = re.compile(r"(\d+)_.*?(\d+)\.npy\Z", re.DOTALL)


class GraphSender(Protocol):
    """Brings values from a graph to ``arrived(array, number of the place)``; the array is to be used before it returns.

    ``send`` and ``blank`` are compiled into the graph: ``blank`` makes the gradient of a place, which has none.
    """

    send: Callable[..., Any]
    blank: Callable[..., Any]

    def place(self, number: int) -> Any:
        """The constant that stands for a place in the graph."""
        ...

    def settle(self) -> None:
        """The graph has run: nothing may be on its way any more."""
        ...


def make_sender(arrived: Arrived) -> GraphSender:
    """The sender for the device of this process."""
    on_ascend = mindspore.get_context("device_target") == "Ascend"
    return TensorDumpSender(arrived) if on_ascend else CallingSender(arrived)


class CallingSender:
    """Calls Python while the graph runs (CPU)."""

    def __init__(self, arrived: Arrived) -> None:
        def msprobe_send(array: Any, place: Any) -> Any:
            arrived(array, int(place))
            return place

        self.send = ops.Custom(
            msprobe_send, out_shape=lambda _, place: place, out_dtype=lambda _, place: place, func_type="pyfunc"
        )
        self.blank = ops.zeros_like

    def place(self, number: int) -> Any:
        return mindspore.Tensor(number, mindspore.int32)

    def settle(self) -> None:
        """Every value came before the graph was done."""


class TensorDumpSender:
    """Has the device write files, named by place, and reads them afterwards. Not checked: it takes an Ascend.

    The runtime adds the dtype and a running number to the name: within a place, smaller numbers came first.
    """

    def __init__(self, arrived: Arrived) -> None:
        self._arrived = arrived
        self._holder = tempfile.TemporaryDirectory(prefix="msprobe-graph-")
        self._folder = Path(self._holder.name)
        dump = ops.TensorDump()

        def msprobe_send(value: Any, place: Any) -> Any:
            return dump(place, value)

        def msprobe_blank(place: Any) -> Any:
            return place

        self.send, self.blank = msprobe_send, msprobe_blank

    def place(self, number: int) -> Any:
        return str(self._folder / str(number))

    def settle(self) -> None:
        mindspore.runtime.synchronize()
        found = [(path, match) for path in self._folder.iterdir() if (match := _DUMPED.match(path.name))]
        for path, match in sorted(found, key=lambda one: int(one[1][2])):
            self._arrived(np.load(path, allow_pickle=False), int(match[1]))
            path.unlink()
