"""Read which MindSpore this is and how it is set up at the moment, as plain values."""

from __future__ import annotations

import mindspore

from msprobe.adapters.mindspore.versions import compiled_graphs, executor, jit_level, number
from msprobe.core.backend.protocols import RuntimeFacts


def runtime_facts() -> RuntimeFacts:
    """Return the mode, jit level, device and version of this process."""
    return RuntimeFacts(
        graph_mode=in_graph_mode(),
        jit_level=jit_level(),
        device=str(mindspore.get_context("device_target")),
        version=number(),
    )


def in_graph_mode() -> bool:
    """Return whether graphs are static (GRAPH_MODE) at the moment."""
    return bool(mindspore.get_context("mode") == mindspore.GRAPH_MODE)


def on_cpu() -> bool:
    """Return whether the target device is the CPU, where every tensor lies in memory that this process can read."""
    return bool(mindspore.get_context("device_target") == "CPU")


def graph_compiled() -> bool:
    """Return whether a graph or a jit function has been compiled in this process."""
    return any(compiled_graphs())


def settle() -> None:
    """Wait until everything that was launched has run; graphs under a gradient run asynchronously.

    Raises:
        RuntimeError: a kernel of the user's program failed, as it would where its result is read.
    """
    executor().sync()
