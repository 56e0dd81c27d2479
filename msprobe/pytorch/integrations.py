"""Callbacks for trainers, so that nothing has to be written into the loop.

    from msprobe.pytorch.integrations import TransformersCallback
    Trainer(..., callbacks=[TransformersCallback("config.json")])

    from msprobe.pytorch.integrations import LightningCallback
    lightning.Trainer(..., callbacks=[LightningCallback("config.json")])

The framework of a callback is imported when the callback is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.adapters.pytorch.lightning_callback import LightningCallback
    from msprobe.adapters.pytorch.transformers_callback import TransformersCallback

_WHERE = {
    "LightningCallback": "msprobe.adapters.pytorch.lightning_callback",
    "TransformersCallback": "msprobe.adapters.pytorch.transformers_callback",
}

__all__ = ["LightningCallback", "TransformersCallback"]


def __getattr__(name: str) -> Any:
    path = _WHERE.get(name)
    if path is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(path), name)
