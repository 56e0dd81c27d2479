"""The functions of msprobe for PyTorch: ``from msprobe.pytorch import PrecisionDebugger, seed_all``.

Each name is imported when it is first used. Where the program's ``torch`` is MSAdapter's, the names are those of
``msprobe.mindspore``, so one script serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.compat_api import AclGraphDumper, module_dump, module_dump_end
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger
    from msprobe.adapters.pytorch.random.determinism import seed_all
    from msprobe.adapters.pytorch.random.random_trace import random_save
    from msprobe.pytorch.dispatch import PtdbgDispatch

_MODULES = {
    "AclGraphDumper": "msprobe.adapters.pytorch.compat_api",
    "PtdbgDispatch": "msprobe.pytorch.dispatch",
    "PrecisionDebugger": "msprobe.adapters.pytorch.debugger",
    "random_save": "msprobe.adapters.pytorch.random.random_trace",
    "seed_all": "msprobe.adapters.pytorch.random.determinism",
    "module_dump": "msprobe.adapters.pytorch.compat_api",
    "module_dump_end": "msprobe.adapters.pytorch.compat_api",
}

_ALSO_FOR_MSADAPTER = ("PrecisionDebugger", "seed_all")

__all__ = [
    "AclGraphDumper",
    "PrecisionDebugger",
    "PtdbgDispatch",
    "module_dump",
    "module_dump_end",
    "random_save",
    "seed_all",
]


def __getattr__(name: str) -> Any:
    import importlib

    path = _MODULES.get(name)
    if path is None:
        from msprobe.legacy_paths import extra

        return extra(__name__, name)
    if name in _ALSO_FOR_MSADAPTER and _torch_is_msadapter():
        path = "msprobe.mindspore"
    return getattr(importlib.import_module(path), name)


def _torch_is_msadapter() -> bool:
    """Return whether ``import torch`` gives MSAdapter; the names that ask for it need a torch anyway."""
    import importlib

    from msprobe.adapters.msadapter.detection import torch_of_msadapter

    try:
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "msprobe.pytorch needs PyTorch, which is not installed here: pip install msprobe[torch] "
            "(or, for MindSpore, import from msprobe.mindspore)",
            name="torch",
        ) from error
    return torch_of_msadapter() is not None


def __dir__() -> list[str]:
    return sorted(__all__)
