"""``PrecisionDebugger`` for PyTorch: ``from msprobe.pytorch import PrecisionDebugger``."""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.backend import make_backend
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.support import PYTORCH
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.session.debugger import Debugger, models_in
from msprobe.native.loader import log_absence


class PrecisionDebugger(Debugger):
    """The documented API over the collection of this process. See ``Debugger``."""

    support = PYTORCH

    @classmethod
    def make_backend(cls, config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
        """Return the backend of PyTorch for this configuration."""
        return make_backend(config, current, thread)

    @classmethod
    def before_first_start(cls, session: Any) -> None:
        """Say once that the compiled kernel is missing."""
        log_absence()

    @classmethod
    def is_model(cls, value: Any) -> bool:
        """Return whether ``value`` is a module, or a non-empty list, tuple or mapping of modules."""
        parts = models_in(value)
        return bool(parts) and all(isinstance(part, torch.nn.Module) for part in parts)

    @classmethod
    def follow_data_loaders(cls) -> None:
        """Let data loaders start and end the steps (``enable_dataloader``)."""
        from msprobe.adapters.pytorch.data_loader_steps import follow

        follow(cls)
