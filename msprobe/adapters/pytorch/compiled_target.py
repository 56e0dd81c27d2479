"""The receiver of calls inside compiled code: the module tap that is attached at the moment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from msprobe.adapters.pytorch.gradient_tap import TorchGradientTap
from msprobe.core.capture.observer import Relay


class FindSite(Protocol):
    """Returns the name of a module's calls, or None."""

    def __call__(self, module: nn.Module) -> Any: ...


class MakeQuiet(Protocol):
    """Returns a context in which nothing that this thread calls is recorded."""

    def __call__(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Target:
    """What compiled code reports to: the relay, the gradient tap, and the names of the modules."""

    relay: Relay
    gradients: TorchGradientTap
    site: FindSite
    quiet: MakeQuiet
