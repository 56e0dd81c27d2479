"""The wrapped functions of PyTorch and those of the packages around it, as one tap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msprobe.core.backend.protocols import ApiTap


class PackageTap(Protocol):
    """The functions of packages that may not be there."""

    def attach(self) -> AbstractContextManager[None]: ...

    def reset(self) -> None: ...


class ApiTaps:
    """Implements ``ApiTap``: what a user registers goes to ``own``."""

    def __init__(self, own: ApiTap, packages: Sequence[PackageTap]) -> None:
        self._own = own
        self._packages = packages

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with contextlib.ExitStack() as attached:
            for tap in (self._own, *self._packages):
                attached.enter_context(tap.attach())
            yield

    def reset(self) -> None:
        for tap in (self._own, *self._packages):
            tap.reset()

    def add(self, owner: Any, name: str, prefix: str) -> None:
        self._own.add(owner, name, prefix)

    def remove(self, owner: Any, name: str) -> None:
        self._own.remove(owner, name)

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        return self._own.registered()
