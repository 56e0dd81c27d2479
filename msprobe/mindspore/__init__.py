"""What msprobe offers for MindSpore: ``from msprobe.mindspore import PrecisionDebugger, seed_all``.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.mindspore.random.determinism import seed_all
    from msprobe.adapters.mindspore.trainer_callbacks import MsprobeInitStep, MsprobeStep
    from msprobe.adapters.mindspore.value_saver import save, save_grad, step
    from msprobe.adapters.msadapter.debugger import PrecisionDebugger
    from msprobe.adapters.msadapter.monitor.trainer_mon import TrainerMon
    from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2

_MODULES = {
    "PrecisionDebugger": "msprobe.adapters.msadapter.debugger",
    "TrainerMon": "msprobe.adapters.msadapter.monitor.trainer_mon",
    "TrainerMonitorV2": "msprobe.monitor.trainer_monitor_v2",
    "seed_all": "msprobe.adapters.mindspore.random.determinism",
    "MsprobeInitStep": "msprobe.adapters.mindspore.trainer_callbacks",
    "MsprobeStep": "msprobe.adapters.mindspore.trainer_callbacks",
    "save": "msprobe.adapters.mindspore.value_saver",
    "save_grad": "msprobe.adapters.mindspore.value_saver",
    "step": "msprobe.adapters.mindspore.value_saver",
}

__all__ = [
    "MsprobeInitStep",
    "MsprobeStep",
    "PrecisionDebugger",
    "TrainerMon",
    "TrainerMonitorV2",
    "save",
    "save_grad",
    "seed_all",
    "step",
]


def __getattr__(name: str) -> Any:
    from msprobe.legacy_paths import load

    path = _MODULES.get(name)
    if path is None:
        from msprobe.legacy_paths import extra

        return extra(__name__, name)
    from msprobe.adapters.mindspore.versions import require

    require()
    return load(path, name)


def __dir__() -> list[str]:
    return sorted(__all__)
