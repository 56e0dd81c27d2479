"""The MindSpore face of msprobe: ``from msprobe.mindspore import PrecisionDebugger``.

Nothing loads before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.msadapter.debugger import PrecisionDebugger

_WHERE = {
    "PrecisionDebugger": "msprobe.adapters.msadapter.debugger",
}

__all__ = ["PrecisionDebugger"]


def __getattr__(name: str) -> Any:
    import importlib

    path = _WHERE.get(name)
    if path is None:
        from msprobe.legacy_paths import extra

        return extra(__name__, name)
    return getattr(importlib.import_module(path), name)


def __dir__() -> list[str]:
    return sorted(__all__)
