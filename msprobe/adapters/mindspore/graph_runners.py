"""The classes of MindSpore that compile graphs, and the methods that run them."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.versions import api


def executors() -> list[Any]:
    """One for cells in GRAPH_MODE, one for ``ms.jit``."""
    from mindspore import _c_expression

    names = ("GraphExecutor_", "JitExecutor_")
    return [getattr(_c_expression, name) for name in names if hasattr(_c_expression, name)]


def runners() -> list[tuple[Any, str]]:
    """A function under ``ms.jit`` in a dynamic graph is run by the executor of that, so that it has a gradient."""
    found = [(executor, "__call__") for executor in executors()]
    dynamic = getattr(api(), "_PyNativeExecutor", None)
    if hasattr(dynamic, "grad_jit"):
        found.append((dynamic, "grad_jit"))
    return found
