"""Callbacks for trainers: one step of collection per step of the optimizer.

The classes are created when they are first used, so that only the package of that one is imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from msprobe.adapters.pytorch.debugger import PrecisionDebugger

_DOCUMENTATION = """{text}

    Args:
        config: as for ``PrecisionDebugger``: a path, a dict, or None for the defaults.
        options: as for ``PrecisionDebugger``: ``level``, ``dump_path`` and so on.

    Raises:
        ConfigError: something in the configuration is wrong.
    """


class _TransformersSteps:
    """Start when a step begins and stop when it ends; a resumed training goes on at its own step number."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.debugger = PrecisionDebugger(config, **options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            self.debugger.set_init_step(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.debugger.start(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.debugger.stop()
        self.debugger.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.debugger.stop()


class _LightningSteps:
    """Start before a training batch, and end the step after the batch with which the optimizer has moved on."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.debugger = PrecisionDebugger(config, **options)
        self._optimizer_steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._optimizer_steps = trainer.global_step
        if trainer.global_step:
            self.debugger.set_init_step(trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.start(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.stop()
        if trainer.global_step != self._optimizer_steps:
            self._optimizer_steps = trainer.global_step
            self.debugger.step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.debugger.stop()


def _transformers_base() -> Any:
    return importlib.import_module("transformers").TrainerCallback


def _lightning_base() -> Any:
    try:
        return importlib.import_module("lightning.pytorch.callbacks").Callback
    except ImportError:  # the package had another name before
        return importlib.import_module("pytorch_lightning.callbacks").Callback


_CALLBACKS = {
    "TransformersCallback": (_TransformersSteps, _transformers_base),
    "LightningCallback": (_LightningSteps, _lightning_base),
}

if TYPE_CHECKING:
    TransformersCallback = _TransformersSteps
    LightningCallback = _LightningSteps


def __getattr__(name: str) -> Any:
    if name not in _CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    steps, base = _CALLBACKS[name]
    members = {"__module__": __name__, "__doc__": _DOCUMENTATION.format(text=steps.__doc__)}
    callback = globals()[name] = type(name, (steps, base()), members)
    return callback
