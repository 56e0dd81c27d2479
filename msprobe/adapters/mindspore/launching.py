"""How operators are launched on a CPU while values are looked at: one after the other, by the thread that calls them.

By default an operator passes through several threads of MindSpore, and each look at a value waits for all of them: a
hundred times the cost of a small operator. What would spare the waiting is to look later, but nothing tells whether a
tensor has been written since (``Tensor._version`` stays the same under ``assign``, optimizers, item assignment and the
moving averages of normalisation), and a copy of every tensor at its call is dearer than looking at it at once.

Launched one after the other, an operator that fails also raises in the call that made it and not in a later one.
"""

from __future__ import annotations

from msprobe.adapters.mindspore.graph_tap import in_graph_mode
from msprobe.adapters.mindspore.runtime_facts import on_cpu
from msprobe.adapters.mindspore.versions import launch_blocking
from msprobe.core.config import DumpConfig
from msprobe.core.errors import error_text
from msprobe.core.log import logger


def looks_at_values(config: DumpConfig) -> bool:
    """Whether ``config`` has values of a dynamic graph on a CPU looked at, one call after the other."""
    return on_cpu() and not in_graph_mode() and config.task_spec.bodies and config.level != "L2"


def launch_at_once() -> None:
    """For the whole process, and only before its first operator: MindSpore takes no notice of it later."""
    try:
        launch_blocking()
    except RuntimeError as error:
        logger.warning(
            "operators run behind the program's back: collecting waits for them, and errors may be raised by a later "
            "call than the one that failed (%s)",
            error_text(error),
        )
