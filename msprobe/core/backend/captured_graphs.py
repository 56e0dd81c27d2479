"""What a framework must offer so that the values inside captured graphs are recorded: CUDA graphs, ACL graphs.

While a graph is captured nothing has a value and the host may not wait for the device. So what measures a value becomes
part of the graph, and each replay computes it again into memory that stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class DeviceGraph(Protocol):
    """A graph of a device, as ``torch.cuda.CUDAGraph`` and ``torch_npu.npu.NPUGraph`` are; its class is watched."""

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Begin to capture what is launched on the current stream."""
        ...

    def capture_end(self) -> None:
        """End the capture."""
        ...

    def replay(self) -> None:
        """Run what was captured, on the current stream; the host does not wait for it."""
        ...


class GraphListener(Protocol):
    """Is told of captures and replays. No method may raise, because it runs inside the user's call."""

    def before_capture(self) -> None:
        """A capture is about to begin: nothing may be launched or waited for in the background until it is over."""
        ...

    def begin(self, graph: Any) -> None:
        """The capture of ``graph`` has begun."""
        ...

    def end(self) -> None:
        """The capture is about to end; what is launched now is the last part of the graph."""
        ...

    def captured(self, graph: Any, complete: bool) -> None:
        """The capture of ``graph`` is over; ``complete`` is False where it has failed, and there is no graph."""
        ...

    def replayed(self, graph: Any) -> None:
        """A replay of ``graph`` was launched on the current stream."""
        ...


class GraphTap(Protocol):
    """Watches the classes of graphs."""

    def attach(self, listener: GraphListener) -> AbstractContextManager[None]:
        """Tell ``listener`` of captures and replays inside the returned context."""
        ...


class CapturedValues(Protocol):
    """What one graph computes at each replay, with the nodes that stand for it in the records of the graph.

    A replay is recorded with copies of these nodes: ``copy_of`` returns the copy of a node.
    """

    @property
    def copies(self) -> Sequence[tuple[dict[str, Any], str, Any]]:
        """Nodes of tensors that are saved: the node, the name of the file, and the memory with the values."""
        ...

    @property
    def constants(self) -> Sequence[tuple[dict[str, Any], Any]]:
        """Nodes of tensors that no replay changes, and the tensors: they are measured when a replay is recorded."""
        ...

    def arrive(self, copy_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """After a replay: have the next ``settle`` of the tensor operations fill the copies of all nodes."""
        ...


class CaptureOps(Protocol):
    """Measures tensors while a graph is captured."""

    def begin(self) -> None:
        """Measure what is described from now on as part of the graph that is being captured."""
        ...

    def capturing(self) -> bool:
        """Return whether this thread captures a graph."""
        ...

    def describe(self, tensor: Any, statistics: bool) -> dict[str, Any]:
        """Return the node of a tensor, as ``TensorOps.describe`` does; with ``statistics`` each replay measures them,
        and the node has None in their place.
        """
        ...

    def keep(self, tensor: Any, node: dict[str, Any], save_as: str) -> None:
        """Copy the values of a tensor within the graph, to be saved as ``save_as`` when a replay is recorded."""
        ...

    def end(self) -> CapturedValues:
        """Pack what was measured since ``begin``, as the last part of the graph, and return it."""
        ...
