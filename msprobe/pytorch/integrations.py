"""Callbacks for trainers, so that the training loop needs no further lines.

    from msprobe.pytorch.integrations import TransformersCallback
    Trainer(..., callbacks=[TransformersCallback("config.json")])

    from msprobe.pytorch.integrations import LightningCallback
    lightning.Trainer(..., callbacks=[LightningCallback("config.json")])

    from msprobe.pytorch.integrations import TransformersCallback, TrlCallback
    rollouts = TrlCallback("rollout")
    GRPOTrainer(..., reward_funcs=[mine, rollouts.reward], callbacks=[rollouts, TransformersCallback("config.json")])

    from msprobe.pytorch.integrations import LightningMonitor, TransformersMonitor
    Trainer(..., callbacks=[TransformersMonitor("monitor.json")])       # watches the training over its steps

The package of a trainer is imported when its callback is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.legacy_paths import load

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.trainer_callbacks import (
        LightningCallback,
        LightningMonitor,
        TransformersCallback,
        TransformersMonitor,
        TrlCallback,
    )

_MODULES = {
    "LightningCallback": "msprobe.adapters.pytorch.trainer_callbacks",
    "LightningMonitor": "msprobe.adapters.pytorch.trainer_callbacks",
    "TransformersMonitor": "msprobe.adapters.pytorch.trainer_callbacks",
    "TransformersCallback": "msprobe.adapters.pytorch.trainer_callbacks",
    "TrlCallback": "msprobe.adapters.pytorch.trainer_callbacks",
}

__all__ = ["LightningCallback", "LightningMonitor", "TransformersCallback", "TransformersMonitor", "TrlCallback"]


def __getattr__(name: str) -> Any:
    path = _MODULES.get(name)
    if path is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return load(path, name)
