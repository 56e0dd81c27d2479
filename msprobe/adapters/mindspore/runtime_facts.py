"""What this MindSpore is and how it is set up at the moment, as plain values."""

from __future__ import annotations

import mindspore

from msprobe.adapters.mindspore.versions import compiled_graphs, executor, jit_level, number
from msprobe.core.backend.protocols import RuntimeFacts


def runtime_facts() -> RuntimeFacts:
    """Mode, jit level, device and version of this process."""
    return RuntimeFacts(
        graph_mode=mindspore.get_context("mode") == mindspore.GRAPH_MODE,
        jit_level=jit_level(),
        device=str(mindspore.get_context("device_target")),
        version=number(),
    )


def on_cpu() -> bool:
    """Whether every tensor lies in memory that this process can read."""
    return bool(mindspore.get_context("device_target") == "CPU")


def graph_compiled() -> bool:
    """Whether a graph or a jit function has been compiled in this process."""
    return any(compiled_graphs())


def settle() -> None:
    """Wait until everything that was launched has run; graphs under a gradient run behind the program's back.

    A kernel of the user's program that failed is raised here, as it would be where its result is read.
    """
    executor().sync()
