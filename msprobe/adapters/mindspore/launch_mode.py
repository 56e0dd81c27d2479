"""Launch operators on a CPU one after the other, in the calling thread, while values are measured.

By default an operator passes through several threads of MindSpore, and each access to a value waits for all of them,
which costs a hundred times as much as a small operator. Measuring later would avoid the wait, but nothing shows whether
a tensor has been written since: ``Tensor._version`` does not change under ``assign``, optimizers, item assignment and
the moving averages of normalisation. A copy of every tensor costs more than measuring it at once.

Launched one after the other, an operator that fails also raises in the call that made it and not in a later one.
"""

from __future__ import annotations

from msprobe.adapters.mindspore.runtime_facts import in_graph_mode, on_cpu
from msprobe.adapters.mindspore.versions import launch_blocking
from msprobe.core.config import DumpConfig
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger


def looks_at_values(config: DumpConfig) -> bool:
    """Return whether ``config`` measures values of a dynamic graph on a CPU, one call after the other."""
    measures = config.task_spec.bodies or config.task == "grad_probe"
    return launches_late() and measures and config.level != "L2"


def launches_late() -> bool:
    """Return whether operators may run later than their calls, in memory that this process reads."""
    return on_cpu() and not in_graph_mode()


def launch_at_once() -> None:
    """Launch operators synchronously in the whole process; it has no effect after the first operator."""
    try:
        launch_blocking()
    except RuntimeError as error:
        let_through(error)
        logger.warning(
            "operators run asynchronously: collecting waits for them, and errors may be raised by a later call than "
            "the one that failed (%s)",
            error_text(error),
        )
