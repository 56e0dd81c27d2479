"""The supported versions of MindSpore, and everything that differs between them.

2.7 to 2.10 were tested on a CPU; for older ones the published sources were read. No other module of this adapter looks
at a version.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from msprobe.core.distribution import (
    install_command,
    is_newer_than_tested,
    parsed,
    supported_versions,
    version_fault,
)
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger

SUPPORTED = supported_versions("mindspore")


def require() -> None:
    """Check that a supported version of MindSpore is installed.

    Raises:
        ImportError: MindSpore is not installed, or older than the oldest supported version.
    """
    if importlib.util.find_spec("mindspore") is None:
        raise ImportError(
            f"msprobe.mindspore needs MindSpore {SUPPORTED}, which is not installed here: "
            f"{install_command('mindspore')}; for PyTorch use msprobe.pytorch"
        )
    import mindspore

    fault = version_fault("mindspore", mindspore.__version__)
    if fault is not None:
        raise ImportError(f"msprobe.mindspore: {fault}")
    if is_newer_than_tested("mindspore", mindspore.__version__) and first_time("mindspore version"):
        logger.warning("MindSpore %s is newer than the tested versions (%s)", mindspore.__version__, SUPPORTED)
    survive_first_conversion(np.__version__)


def number() -> tuple[int, ...]:
    """Return the version of this MindSpore, such as ``(2, 10, 0)``."""
    import mindspore

    return parsed(mindspore.__version__)


def version_text() -> str:
    """Return the version of this MindSpore as MindSpore writes it, such as ``2.10.0``."""
    import mindspore

    return str(mindspore.__version__)


def survive_first_conversion(numpy_version: str) -> bool:
    """Run one operator that converts a Python number, because with NumPy 2 the first such operator fails.

    Returns whether it failed.
    """
    if parsed(numpy_version)[0] < 2 or not first_time("mindspore numpy 2"):
        return False
    import mindspore

    try:
        mindspore.mint.mul(mindspore.Tensor(np.ones(1, np.float32)), 2.0)
    except (SystemError, ImportError, RuntimeError, TypeError) as error:
        let_through(error)
        logger.warning("MindSpore was built for NumPy 1 and its first operator fails under NumPy %s", numpy_version)
        return True
    return False


def executor() -> Any:
    """Return the object that runs dynamic graphs. From 2.9 on it is in ``mindspore.graph.api``; the old path warns."""
    return api()._pynative_executor


def native_executor() -> Any:
    """Return the C++ object behind ``executor``, for methods that are called at every call."""
    return getattr(executor(), "_executor", None) or executor()


def jit_executor() -> Any:
    """Return the class whose instances run compiled functions; None when this version has none of the known names."""
    return getattr(api(), "_JitExecutor", None) or getattr(api(), "_MindsporeFunctionExecutor", None)


def cell_executor() -> Any:
    """Return the class that compiles cells in GRAPH_MODE; None where it has another name."""
    return getattr(api(), "_CellGraphExecutor", None)


def has_gradient_nodes() -> bool:
    """Return whether tensors have their autograd node, and nodes an identity (from 2.9 on).

    Otherwise only gradients of outputs can be observed.
    """
    return number()[:2] >= (2, 9)


def address_of_tensors() -> Callable[[Any], int] | None:
    """Return the function that returns the address of a tensor's first element; None before 2.8.

    There it returns the address of the base of a view.
    """
    method = getattr(native_tensor(), "_data_ptr", None)  # of the C++ class, which saves a Python call
    return method if number()[:2] >= (2, 8) else None


def can_have_gradient(tensor: Any) -> bool:
    """Return whether a gradient can reach the tensor; before 2.8 True, because no tensor knows it there.

    The C++ class is asked: mindtorch puts an attribute of this name over it that is false for every activation.
    """
    flag = getattr(native_tensor(), "_requires_grad", None)
    requires_grad = None if flag is None else flag.__get__(tensor)
    return requires_grad is None or bool(requires_grad)


@functools.cache
def native_tensor() -> Any:
    """Return the C++ class below ``mindspore.Tensor``."""
    from mindspore import Tensor

    return Tensor.__mro__[-2]


def register_native_hook(tensor: Any, hook: Callable[[Any], None]) -> Callable[[], None]:
    """Register a gradient hook by the C++ class, whatever is in place of ``Tensor.register_hook``.

    Returns the function that removes it.

    Raises:
        TypeError: ``tensor`` is no tensor of MindSpore; its C++ method would end the process.
    """
    native = native_tensor()
    if not isinstance(tensor, native):
        raise TypeError(f"a {type(tensor).__name__} is no tensor of MindSpore")
    number = native.register_hook(tensor, hook)
    return lambda: native.remove_hook(number)


def hooks_of(tensor: Any) -> list[Any]:
    """Return the gradient hooks of a tensor; none where this version of MindSpore does not tell them."""
    native = native_tensor()
    return list(native.hooks(tensor)) if hasattr(native, "hooks") and isinstance(tensor, native) else []


def says_no_gradient(error: Exception) -> bool:
    """Return whether a tensor refused a hook because no gradient reaches it, which 2.7 tells nowhere else."""
    return "requires grad is false" in str(error)


def engine_of_backward() -> Any:
    """Return the function that returns the number of the running backward pass, -1 outside of one and before 2.8."""
    return getattr(native_executor(), "get_current_autodiff_engine_id", lambda: -1)


def graph_executors() -> list[Any]:
    """Return the classes that compile graphs: one for cells in GRAPH_MODE, one for ``ms.jit``."""
    from mindspore import _c_expression

    names = ("GraphExecutor_", "JitExecutor_")
    return [getattr(_c_expression, name) for name in names if hasattr(_c_expression, name)]


def graph_runners() -> list[tuple[Any, str]]:
    """Return the methods that run graphs, as pairs of a class and a name.

    The executor of dynamic graphs runs a function under ``ms.jit``, so that the function has a gradient.
    """
    runners = [(kind, "__call__") for kind in graph_executors()]
    dynamic = getattr(api(), "_PyNativeExecutor", None)
    if hasattr(dynamic, "grad_jit"):
        runners.append((dynamic, "grad_jit"))
    return runners


def compiled_graphs() -> Iterator[Any]:
    """Yield the containers of graphs and ``jit`` functions that were compiled in this process; empty ones for none."""
    yield getattr(api(), "ms_compile_cache", ())
    yield from getattr(api(), "cells_compile_cache", {}).values()


def launch_blocking() -> None:
    """Launch operators one after the other; it has an effect only before the first operator.

    Raises:
        RuntimeError: it is too late, in versions that report that.
    """
    import mindspore

    switch = getattr(getattr(mindspore, "runtime", None), "launch_blocking", None)
    if switch is not None:
        switch()
    else:
        mindspore.set_context(pynative_synchronize=True)


def wait_for_device() -> None:
    """Wait until everything that was launched on the device has run."""
    import mindspore

    (getattr(mindspore, "runtime", None) or mindspore.hal).synchronize()


def jit_level() -> str:
    """Return the level set by ``set_context(jit_level=...)`` or ``jit_config``; "" when none is set."""
    import mindspore

    try:
        level = mindspore.get_context("jit_level")
    except (KeyError, ValueError, RuntimeError) as error:  # not a key of this version
        let_through(error)
        level = ""
    if not level:
        config = mindspore.get_context("jit_config")
        level = config.get("jit_level", "") if isinstance(config, dict) else ""
    return str(level or "")


def seed_generators(seed: int) -> None:
    """Seed the generators of MindSpore; ``manual_seed`` is newer than ``set_seed`` and has its own generator."""
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
    """Return the module that compiles and runs graphs; ``mindspore.graph.api`` from 2.9 on."""
    if importlib.util.find_spec("mindspore.graph") is not None and importlib.util.find_spec("mindspore.graph.api"):
        from mindspore.graph import api as module
    else:
        from mindspore.common import api as module
    return module
