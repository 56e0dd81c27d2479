"""Captures and replays of the graphs of a device: ``torch.cuda.CUDAGraph`` and ``torch_npu.npu.NPUGraph``.

Both classes have methods written in Python, ``capture_begin``, ``capture_end`` and ``replay``, which
``torch.cuda.graph``, ``make_graphed_callables``, ``torch.compile`` and servers call. They are replaced while somebody
listens: a dumper of graph mode that has started, and ``acl_save`` once it was called inside a capture. A graph that C++
code captures or replays by itself is not seen. Not run on an NPU.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.core.backend.captured_graphs import DeviceGraph, GraphListener
from msprobe.core.capture.patching import Patches
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises

Classes = tuple[type[DeviceGraph], ...]


class TorchGraphTap:
    """Implements ``GraphTap``.

    Args:
        classes: the classes of graphs.
    """

    def __init__(self, classes: Classes) -> None:
        self._listeners: list[GraphListener] = []
        self._patches = Patches()
        for graph in classes:
            self._patches.plan(graph, "capture_begin", _begin(graph.capture_begin, self._listeners))
            self._patches.plan(graph, "capture_end", _end(graph.capture_end, self._listeners))
            self._patches.plan(graph, "replay", _replay(graph.replay, self._listeners))

    @contextlib.contextmanager
    def attach(self, listener: GraphListener) -> Iterator[None]:
        self._listeners.append(listener)
        self._patches.apply()
        try:
            yield
        finally:
            self._listeners.remove(listener)
            if not self._listeners:
                self._patches.undo()


def graph_tap() -> TorchGraphTap:
    """Return the tap of the classes that this program can have: that of CUDA, and that of torch_npu if imported."""
    npu = getattr(sys.modules.get("torch_npu"), "npu", None)
    found: list[Any] = [torch.cuda.CUDAGraph, getattr(npu, "NPUGraph", None)]
    return tap_of(tuple(graph for graph in found if graph is not None))


@functools.cache
def tap_of(classes: Classes) -> TorchGraphTap:
    """Return the one tap of these classes: two of them would put each other's replacements back."""
    return TorchGraphTap(classes)


class SettledBeforeCaptures:
    """Fetches what a device still computes for a session before a graph is captured, because another thread that waits
    for the device meanwhile may end the capture (implements ``GraphListener``).

    Args:
        settle: fetches it.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self.errors = ErrorLog(None)
        self._settle = settle

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Listen inside this context, where the program uses a device that has graphs."""
        if not torch.cuda.is_initialized() and "torch_npu" not in sys.modules:
            yield
            return
        with graph_tap().attach(self):
            yield

    @never_raises
    def before_capture(self) -> None:
        self._settle()

    def begin(self, graph: Any) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def captured(self, graph: Any, complete: bool) -> None:
        """Do nothing."""

    def replayed(self, graph: Any) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing."""


def _begin(original: Callable[..., None], listeners: list[GraphListener]) -> Callable[..., None]:
    @functools.wraps(original)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        for listener in listeners:
            listener.before_capture()
        original(self, *args, **kwargs)
        for listener in listeners:
            listener.begin(self)

    return capture_begin


def _end(original: Callable[..., None], listeners: list[GraphListener]) -> Callable[..., None]:
    @functools.wraps(original)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> None:
        complete = False
        try:
            for listener in listeners:
                listener.end()
            original(self, *args, **kwargs)
            complete = True
        finally:
            for listener in listeners:
                listener.captured(self, complete)

    return capture_end


def _replay(original: Callable[..., None], listeners: list[GraphListener]) -> Callable[..., None]:
    @functools.wraps(original)
    def replay(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for listener in listeners:
            listener.replayed(self)

    return replay
