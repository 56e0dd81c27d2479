"""A callback for Lightning: one step of collection per step of the optimizer, however many batches that takes."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.pytorch.debugger import PrecisionDebugger

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the package had another name before
    from pytorch_lightning.callbacks import Callback


class LightningCallback(Callback):
    """Starts before a training batch, and ends the step after the batch with which the optimizer has moved on.

    Args:
        config: as for ``PrecisionDebugger``: a path, a dict, or None for the defaults.
        options: as for ``PrecisionDebugger``: ``level``, ``dump_path`` and so on.

    Raises:
        ConfigError: something in the configuration is wrong.
    """

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.debugger = PrecisionDebugger(config, **options)
        self._moved_to = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._moved_to = trainer.global_step
        if trainer.global_step:
            self.debugger.set_init_step(trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.start(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.debugger.stop()
        if trainer.global_step != self._moved_to:
            self._moved_to = trainer.global_step
            self.debugger.step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.debugger.stop()
