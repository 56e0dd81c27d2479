"""The MindSpore versions we work with, and everything that differs between them.

2.7 to 2.10 were tried on a CPU; the older ones follow their published sources. Other modules of this adapter ask here
and never look at a version themselves.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from msprobe.core.log import first_time, logger

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
    if parsed(mindspore.__version__)[:2] > NEWEST and first_time("mindspore version"):
        logger.warning("MindSpore %s is newer than what was tried (%s)", mindspore.__version__, SUPPORTED)
    survive_first_conversion(np.__version__)


def version_fault(version: str) -> str | None:
    """What is wrong with a version of MindSpore; None when we support it or it is newer than what we know."""
    if parsed(version)[:2] >= OLDEST:
        return None
    return f"MindSpore {version} is not supported, {SUPPORTED} is; install a newer one"


def number() -> tuple[int, ...]:
    """The version of this MindSpore, ``(2, 10, 0)``."""
    import mindspore

    return parsed(mindspore.__version__)


def parsed(version: str) -> tuple[int, ...]:
    """``2.10.0rc1`` -> (2, 10, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("rc")[0])[:3])


def survive_first_conversion(numpy_version: str) -> bool:
    """With NumPy 2 the first operator that converts a Python number fails, and only the first: let it be ours.

    Whether an operator had to be thrown away.
    """
    if parsed(numpy_version)[0] < 2 or not first_time("mindspore numpy 2"):
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
    """Whether tensors know the autograd node that made them, and nodes have identities (2.9): without, only gradients
    of outputs are seen.
    """
    return number()[:2] >= (2, 9)


def address_of_tensors() -> Callable[[Any], int] | None:
    """What gives the address of a tensor's first element; None before 2.8, where views give that of their base."""
    from mindspore import Tensor

    known = getattr(Tensor.__mro__[-2], "_data_ptr", None)  # of the C++ class, past a Python call
    return known if number()[:2] >= (2, 8) else None


def can_have_gradient(tensor: Any) -> bool:
    """Whether a gradient can reach the tensor; before 2.8 inner tensors do not know, and it is as if it could."""
    known = getattr(tensor, "_requires_grad", None)
    return known is None or bool(known)


def engine_of_backward() -> Any:
    """The function that numbers the backward pass running now, -1 outside one; always -1 before 2.8, which has none."""
    return getattr(native_executor(), "get_current_autodiff_engine_id", lambda: -1)


def graph_executors() -> list[Any]:
    """The classes that compile graphs: one for cells in GRAPH_MODE, one for ``ms.jit``."""
    from mindspore import _c_expression

    names = ("GraphExecutor_", "JitExecutor_")
    return [getattr(_c_expression, name) for name in names if hasattr(_c_expression, name)]


def graph_runners() -> list[tuple[Any, str]]:
    """The methods that run graphs. A function under ``ms.jit`` in a dynamic graph is run by the executor of that, so
    that it has a gradient.
    """
    found = [(kind, "__call__") for kind in graph_executors()]
    dynamic = getattr(api(), "_PyNativeExecutor", None)
    if hasattr(dynamic, "grad_jit"):
        found.append((dynamic, "grad_jit"))
    return found


def compiled_graphs() -> Iterator[Any]:
    """The graphs and functions under ``jit`` that have been compiled in this process, by cell; empty ones for none."""
    yield getattr(api(), "ms_compile_cache", ())
    yield from getattr(api(), "cells_compile_cache", {}).values()


def launch_blocking() -> None:
    """Have operators launched one after the other; before the first operator, or it has no effect.

    Raises:
        RuntimeError: this version says that it is too late.
    """
    import mindspore

    switch = getattr(getattr(mindspore, "runtime", None), "launch_blocking", None)
    if switch is not None:
        switch()
    else:
        mindspore.set_context(pynative_synchronize=True)


def wait_for_device() -> None:
    """Until all that was launched on the device has run."""
    import mindspore

    (getattr(mindspore, "runtime", None) or mindspore.hal).synchronize()


def jit_level() -> str:
    """As set by ``set_context(jit_level=...)`` or ``jit_config``; "" when nothing is."""
    import mindspore

    try:
        level = mindspore.get_context("jit_level")
    except (KeyError, ValueError, RuntimeError):  # not a key of this version
        level = ""
    if not level:
        config = mindspore.get_context("jit_config")
        level = config.get("jit_level", "") if isinstance(config, dict) else ""
    return str(level or "")


def seed_generators(seed: int) -> None:
    """Those of the framework; ``manual_seed`` is newer than ``set_seed`` and has a generator of its own."""
    import mindspore

    mindspore.set_seed(seed)
    if hasattr(mindspore, "manual_seed"):
        mindspore.manual_seed(seed)


def make_deterministic() -> None:
    """Ask for deterministic operators."""
    import mindspore

    if hasattr(mindspore, "set_deterministic"):
        mindspore.set_deterministic(True)
    else:  # before 2.6
        mindspore.set_context(deterministic="ON")


def api() -> Any:
    """The module that compiles and runs; ``mindspore.graph.api`` from 2.9 on."""
    if importlib.util.find_spec("mindspore.graph") is not None and importlib.util.find_spec("mindspore.graph.api"):
        from mindspore.graph import api as found
    else:
        from mindspore.common import api as found
    return found
