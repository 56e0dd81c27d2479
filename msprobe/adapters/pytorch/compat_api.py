"""Entry points that programs written for other versions of the tool import.

``module_dump`` records the inputs and outputs of one module, and nothing inside it.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.pytorch.data_loader_steps import LoaderSteps, follow
from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.core.dump.record.error_boundary import log_unexpected
from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import MsprobeException, argument_text


@log_unexpected
def module_dump(module: Any, dump_name: Any = None, module_name: Any = None) -> None:
    """Record ``module`` alone, as ``Module.{dump_name}.{Class}``, until ``module_dump_end``.

    The published document calls the name ``module_name``, the published program ``dump_name``; both are taken.

    Raises:
        MsprobeException: there is no debugger, or an argument is of the wrong type.
    """
    with process_debugger.LOCK:
        process_debugger.current().focus(module, module_name if dump_name is None else dump_name)


@log_unexpected
def module_dump_end() -> None:
    """End ``module_dump``: record as configured again."""
    with process_debugger.LOCK:
        process_debugger.current().focus_end()


def enable_dataloader(model: Any = None) -> LoaderSteps:
    """Let data loaders start and end the steps of the debugger of this process: each batch is one.

    Args:
        model: as for ``PrecisionDebugger.start``; left out, the one that the debugger was constructed with.

    Returns:
        What ends it: ``close()``, or the end of a ``with`` block.

    Raises:
        MsprobeException: there is no debugger, or ``model`` is no model.
    """
    if model is not None and not PrecisionDebugger.is_model(model):
        text = f"enable_dataloader: model is a torch.nn.Module or a list of them, got {argument_text(model)}"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
    with process_debugger.LOCK:
        steps = follow(PrecisionDebugger)
        if model is not None:
            PrecisionDebugger._model = model
        return steps
