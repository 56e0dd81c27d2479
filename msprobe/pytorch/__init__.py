"""The PyTorch face of msprobe: ``from msprobe.pytorch import PrecisionDebugger, seed_all``.

Nothing loads before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger
    from msprobe.adapters.pytorch.determinism import seed_all
    from msprobe.adapters.pytorch.module_dump import module_dump, module_dump_end

_WHERE = {
    "PrecisionDebugger": "msprobe.adapters.pytorch.debugger",
    "seed_all": "msprobe.adapters.pytorch.determinism",
    "module_dump": "msprobe.adapters.pytorch.module_dump",
    "module_dump_end": "msprobe.adapters.pytorch.module_dump",
}

__all__ = ["PrecisionDebugger", "module_dump", "module_dump_end", "seed_all"]


def __getattr__(name: str) -> Any:
    import importlib

    path = _WHERE.get(name)
    if path is None:
        raise AttributeError(f"module 'msprobe.pytorch' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(path), name)


def __dir__() -> list[str]:
    return sorted(__all__)
