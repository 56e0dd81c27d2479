"""Calls of ``forward`` that do not come through ``__call__`` of the module: ``self.block.forward(x)``.

The ``forward`` of the classes of the modules is replaced while collecting. A class that the program gives another
``forward`` meanwhile keeps that one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import nn

_FORWARD = "forward"
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class ForwardMethods:
    """Implements ``Replacement``: functions that stand for the ``forward`` of classes of modules.

    Args:
        wrap: returns the function that stands for a ``forward``; it is asked once for each.
    """

    def __init__(self, wrap: Wrap) -> None:
        self._wrap = wrap
        self._wrappers: dict[Callable[..., Any], Callable[..., Any]] = {}  # code may be compiled for one of them
        self._owners: dict[type, None] = {}
        self._replaced: dict[type, Callable[..., Any]] = {}
        self._applied = False

    def cover(self, module: nn.Module) -> None:
        """Stand for the ``forward`` of a module too. One that is no function of Python stays as it is."""
        owner = next((kind for kind in type(module).__mro__ if _FORWARD in vars(kind)), nn.Module)
        if owner is not nn.Module and owner not in self._owners:
            self._owners[owner] = None
            if self._applied:
                self._replace(owner)

    def apply(self) -> None:
        self._applied = True
        for owner in self._owners:
            self._replace(owner)

    def undo(self) -> None:
        self._applied = False
        while self._replaced:
            owner, original = self._replaced.popitem()
            if vars(owner).get(_FORWARD) is self._wrappers[original]:
                setattr(owner, _FORWARD, original)

    def _replace(self, owner: type) -> None:
        original = vars(owner).get(_FORWARD)
        if owner in self._replaced or not isinstance(original, FunctionType):
            return
        if original not in self._wrappers:
            self._wrappers[original] = self._wrap(original)
        self._replaced[owner] = original
        setattr(owner, _FORWARD, self._wrappers[original])
