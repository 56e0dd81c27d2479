"""Show Lightning the original reductions of torch, which it knows by identity.

``self.log(..., reduce_fx="mean")`` keeps ``torch.mean`` from one step to the next and asks later whether what it kept
``is torch.mean``. While functions of torch are replaced, the answer would be no, and Lightning would end the training
with an error. So its module of results sees ``OriginalReductions`` under the name ``torch``, and the ``reduce_fx`` of a
user becomes the original. Its reductions are its own bookkeeping and are not recorded.

The package is never imported here. Each start looks for it, because it may have been imported since.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD
from msprobe.core.capture.patching import Patches
from msprobe.core.interruption import imported_whole

_RESULTS = (
    "lightning.pytorch.trainer.connectors.logger_connector.result",
    "pytorch_lightning.trainer.connectors.logger_connector.result",
)
"""The module of Lightning that knows reductions by identity, by its names in newer and older versions."""
_REDUCTIONS = ("mean", "sum", "max", "min")


class OriginalReductions(ModuleType):
    """Has the attributes of torch, and its original reductions even while these are replaced."""

    def __init__(self) -> None:
        super().__init__(torch.__name__)
        for name in _REDUCTIONS:
            setattr(self, name, getattr(torch, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def original_of(self, reduction: Any) -> Any:
        """Return the original of a reduction of torch; anything else as it is."""
        for name in _REDUCTIONS:
            if reduction is getattr(torch, name):
                return getattr(self, name)
        return reduction


class ReductionIdentity:
    """Implements ``PackageTap``. It is made while nothing is replaced."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._planned: set[str] = set()
        self._torch = OriginalReductions()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Show the originals inside this context."""
        for name in _RESULTS:
            module = imported_whole(name)
            if module is not None and name not in self._planned and getattr(module, "torch", None) is torch:
                self._planned.add(name)
                self._plan(module)
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Do nothing: these calls are not recorded."""

    def _plan(self, module: Any) -> None:
        self._patches.plan(module, "torch", self._torch)
        metadata = getattr(module, "_Metadata", None)
        if callable(getattr(metadata, "__post_init__", None)):
            self._patches.plan(metadata, "__post_init__", self._with_original(metadata.__post_init__))  # type: ignore[union-attr]

    def _with_original(self, original: Callable[..., Any]) -> Callable[..., Any]:
        reductions = self._torch

        @functools.wraps(original)
        def parse(metadata: Any) -> Any:
            metadata.reduce_fx = reductions.original_of(metadata.reduce_fx)
            return original(metadata)

        return parse
