"""The functions of msprobe for PyTorch: ``from msprobe.pytorch import PrecisionDebugger, seed_all``.

Each name is imported when it is first used. Where the program's ``torch`` is MSAdapter's, the names are those of
``msprobe.mindspore``, so one script serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.compat_api import module_dump, module_dump_end
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger
    from msprobe.adapters.pytorch.graph_dumper import AclGraphDumper
    from msprobe.adapters.pytorch.graph_save import acl_save
    from msprobe.adapters.pytorch.monitor.trainer_mon import TrainerMon
    from msprobe.adapters.pytorch.random.determinism import seed_all
    from msprobe.adapters.pytorch.random.random_trace import random_save
    from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2
    from msprobe.pytorch.dispatch import PtdbgDispatch

_MODULES = {
    "AclGraphDumper": "msprobe.adapters.pytorch.graph_dumper",
    "PtdbgDispatch": "msprobe.pytorch.dispatch",
    "PrecisionDebugger": "msprobe.adapters.pytorch.debugger",
    "acl_save": "msprobe.adapters.pytorch.graph_save",
    "TrainerMon": "msprobe.adapters.pytorch.monitor.trainer_mon",
    "TrainerMonitorV2": "msprobe.monitor.trainer_monitor_v2",
    "random_save": "msprobe.adapters.pytorch.random.random_trace",
    "seed_all": "msprobe.adapters.pytorch.random.determinism",
    "module_dump": "msprobe.adapters.pytorch.compat_api",
    "module_dump_end": "msprobe.adapters.pytorch.compat_api",
}

_ALSO_FOR_MSADAPTER = ("PrecisionDebugger", "TrainerMon", "seed_all")

__all__ = [
    "AclGraphDumper",
    "PrecisionDebugger",
    "PtdbgDispatch",
    "acl_save",
    "TrainerMon",
    "TrainerMonitorV2",
    "module_dump",
    "module_dump_end",
    "random_save",
    "seed_all",
]


def __getattr__(name: str) -> Any:
    from msprobe.legacy_paths import load

    if name in _ALSO_FOR_MSADAPTER and _torch_is_msadapter():
        return load("msprobe.mindspore", name)
    path = _MODULES.get(name)
    if path is None:
        from msprobe.legacy_paths import extra

        return extra(__name__, name)
    return load(path, name)


def _torch_is_msadapter() -> bool:
    """Return whether ``import torch`` gives MSAdapter; the names that ask for it need a torch anyway."""
    import importlib

    from msprobe.adapters.msadapter.detection import torch_of_msadapter
    from msprobe.core.distribution import install_command

    try:
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"msprobe.pytorch needs PyTorch, which is not installed here: {install_command('torch')} "
            "(or, for MindSpore, import from msprobe.mindspore)",
            name="torch",
        ) from error
    return torch_of_msadapter() is not None


def __dir__() -> list[str]:
    return sorted(__all__)
