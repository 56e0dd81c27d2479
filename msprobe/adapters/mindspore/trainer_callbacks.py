"""Callbacks for ``Model.train``, which start and stop the debugger at each step of MindSpore's own training loop."""

from __future__ import annotations

from typing import Any

from mindspore.train import Callback

from msprobe.core.dump.session import process_debugger


class MsprobeStep(Callback):
    """Collects every step of ``Model.train``: ``start`` when a step begins, ``stop`` and ``step`` when it ends.

    With ``dataset_sink_mode=True`` MindSpore runs many steps as one block; each block is one step of the dump.

    Args:
        debugger: the ``PrecisionDebugger``. When it has no model, it records the network of the training.
    """

    def __init__(self, debugger: Any) -> None:
        super().__init__()
        self.debugger = debugger

    def on_train_step_begin(self, run_context: Any) -> None:
        own = getattr(type(self.debugger), "_model", None)
        self.debugger.start(run_context.original_args().network if own is None else None)

    def on_train_step_end(self, run_context: Any) -> None:
        self.debugger.stop()
        self.debugger.step()


class MsprobeInitStep(Callback):
    """Numbers the steps from the present step of a resumed training; must come before ``MsprobeStep``."""

    def on_train_begin(self, run_context: Any) -> None:
        done = int(getattr(run_context.original_args(), "cur_step_num", 0) or 0)
        session = process_debugger.peek()
        if session is not None:
            session.set_init_step(done)
