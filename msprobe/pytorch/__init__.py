"""The PyTorch face of msprobe: ``from msprobe.pytorch import PrecisionDebugger, seed_all``.

Nothing loads before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger
    from msprobe.adapters.pytorch.determinism import seed_all
    from msprobe.adapters.pytorch.graph_dumper import AclGraphDumper
    from msprobe.adapters.pytorch.module_dump import module_dump, module_dump_end
    from msprobe.adapters.pytorch.random_calls import random_save

_WHERE = {
    "AclGraphDumper": "msprobe.adapters.pytorch.graph_dumper",
    "PrecisionDebugger": "msprobe.adapters.pytorch.debugger",
    "random_save": "msprobe.adapters.pytorch.random_calls",
    "seed_all": "msprobe.adapters.pytorch.determinism",
    "module_dump": "msprobe.adapters.pytorch.module_dump",
    "module_dump_end": "msprobe.adapters.pytorch.module_dump",
}

__all__ = ["AclGraphDumper", "PrecisionDebugger", "module_dump", "module_dump_end", "random_save", "seed_all"]


def __getattr__(name: str) -> Any:
    import importlib

    path = _WHERE.get(name)
    if path is None:
        from msprobe.legacy_paths import extra

        return extra(__name__, name)
    return getattr(importlib.import_module(path), name)


def __dir__() -> list[str]:
    return sorted(__all__)
