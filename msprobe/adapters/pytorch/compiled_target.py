"""Who is told of calls inside compiled code: the module tap that is attached at the moment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from msprobe.adapters.pytorch.gradient_tap import TorchGradientTap
from msprobe.core.capture.observer import Relay


class FindSite(Protocol):
    def __call__(self, module: nn.Module) -> Any: ...


class Quiet(Protocol):
    def __call__(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Target:
    """``site`` gives the name of a module's calls or None; inside ``quiet`` what this thread calls is not recorded."""

    relay: Relay
    gradients: TorchGradientTap
    site: FindSite
    quiet: Quiet
