"""The MindSpore versions we work with, and everything that differs between them.

What was tried is the newest; the older ones follow their published sources. Other modules of this adapter ask here and
never look at a version themselves.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np

from msprobe.core.log import logger, once

OLDEST, NEWEST = (2, 4), (2, 10)
SUPPORTED = ".".join(map(str, OLDEST)) + " to " + ".".join(map(str, NEWEST))


def require() -> None:
    """Make sure that MindSpore is there and one we know.

    Raises:
        ImportError: it is missing, or older than the oldest supported version.
    """
    if importlib.util.find_spec("mindspore") is None:
        raise ImportError(
            f"msprobe.mindspore needs MindSpore {SUPPORTED}, which is not installed here: "
            'pip install "msprobe[mindspore]"; for PyTorch use msprobe.pytorch'
        )
    import mindspore

    fault = version_fault(mindspore.__version__)
    if fault is not None:
        raise ImportError(f"msprobe.mindspore: {fault}")
    if parsed(mindspore.__version__)[:2] > NEWEST and once("mindspore version"):
        logger.warning("MindSpore %s is newer than what was tried (%s)", mindspore.__version__, SUPPORTED)
    survive_first_conversion(np.__version__)


def version_fault(version: str) -> str | None:
    """What is wrong with a version of MindSpore; None when we support it or it is newer than what we know."""
    if parsed(version)[:2] >= OLDEST:
        return None
    return f"MindSpore {version} is not supported, {SUPPORTED} is; install a newer one"


def parsed(version: str) -> tuple[int, ...]:
    """``2.10.0rc1`` -> (2, 10, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("rc")[0])[:3])


def survive_first_conversion(numpy_version: str) -> bool:
    """With NumPy 2 the first operator that converts a Python number fails, and only the first: let it be ours.

    Whether an operator had to be thrown away.
    """
    if parsed(numpy_version)[0] < 2 or not once("mindspore numpy 2"):
        return False
    import mindspore

    try:
        mindspore.mint.mul(mindspore.Tensor(np.ones(1, np.float32)), 2.0)
    except (SystemError, ImportError, RuntimeError, TypeError):
        logger.warning("MindSpore was built for NumPy 1 and its first operator fails under NumPy %s", numpy_version)
        return True
    return False


def executor() -> Any:
    """What runs a dynamic graph; at home in ``mindspore.graph.api`` from 2.9 on, where the older path warns."""
    return api()._pynative_executor


def native_executor() -> Any:
    """``executor`` without its Python shell, for what is asked at every call."""
    return getattr(executor(), "_executor", None) or executor()


def jit_executor() -> Any:
    """The class whose instances run compiled functions; None when this version has neither of the known ones."""
    return getattr(api(), "_JitExecutor", None) or getattr(api(), "_MindsporeFunctionExecutor", None)


def cell_executor() -> Any:
    """The class that compiles cells in GRAPH_MODE; None where it has another name."""
    return getattr(api(), "_CellGraphExecutor", None)


def has_gradient_nodes() -> bool:
    """Whether tensors know the autograd node that made them (2.10): without, only gradients of outputs are seen."""
    from mindspore import Tensor

    return hasattr(Tensor, "_grad_node")


def engine_of_backward() -> Any:
    """The function that numbers the backward pass running now, -1 outside one (2.10); always -1 where there is none."""
    return getattr(native_executor(), "get_current_autodiff_engine_id", lambda: -1)


def api() -> Any:
    """The module that compiles and runs; ``mindspore.graph.api`` from 2.9 on."""
    if importlib.util.find_spec("mindspore.graph") is not None and importlib.util.find_spec("mindspore.graph.api"):
        from mindspore.graph import api as found
    else:
        from mindspore.common import api as found
    return found
