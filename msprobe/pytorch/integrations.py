"""Callbacks for trainers, so that the training loop needs no further lines.

    from msprobe.pytorch.integrations import TransformersCallback
    Trainer(..., callbacks=[TransformersCallback("config.json")])

    from msprobe.pytorch.integrations import LightningCallback
    lightning.Trainer(..., callbacks=[LightningCallback("config.json")])

The package of a trainer is imported when its callback is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.trainer_callbacks import LightningCallback, TransformersCallback

_MODULES = {
    "LightningCallback": "msprobe.adapters.pytorch.trainer_callbacks",
    "TransformersCallback": "msprobe.adapters.pytorch.trainer_callbacks",
}

__all__ = ["LightningCallback", "TransformersCallback"]


def __getattr__(name: str) -> Any:
    path = _MODULES.get(name)
    if path is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(path), name)
