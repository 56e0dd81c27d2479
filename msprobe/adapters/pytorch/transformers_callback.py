"""A callback for ``transformers.Trainer``: one step of collection per step of the optimizer."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from msprobe.adapters.pytorch.debugger import PrecisionDebugger


class TransformersCallback(TrainerCallback):
    """Starts when a step begins, stops when it ends; a resumed training goes on at its own step number.

    Args:
        config: as for ``PrecisionDebugger``: a path, a dict, or None for the defaults.
        options: as for ``PrecisionDebugger``: ``level``, ``dump_path`` and so on.

    Raises:
        ConfigError: something in the configuration is wrong.
    """

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
