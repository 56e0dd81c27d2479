"""The wrapped functions of PyTorch and those of the packages around it, as one tap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msprobe.core.backend.protocols import ApiTap


class PackageTap(Protocol):
    """The functions of packages that may not be installed."""

    def attach(self) -> AbstractContextManager[None]:
        """Record the functions inside the context."""
        ...

    def reset(self) -> None:
        """Number the calls from 0 again."""
        ...


class ApiTaps:
    """Implements ``ApiTap`` with several taps.

    Args:
        torch_tap: the functions of PyTorch, and those that a user registers.
        packages: the functions of the packages around it.
    """

    def __init__(self, torch_tap: ApiTap, packages: Sequence[PackageTap]) -> None:
        self._torch_tap = torch_tap
        self._packages = packages

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with contextlib.ExitStack() as attached:
            for tap in (self._torch_tap, *self._packages):
                attached.enter_context(tap.attach())
            yield

    def reset(self) -> None:
        for tap in (self._torch_tap, *self._packages):
            tap.reset()

    def add(self, owner: Any, name: str, prefix: str) -> None:
        self._torch_tap.add(owner, name, prefix)

    def remove(self, owner: Any, name: str) -> None:
        self._torch_tap.remove(owner, name)

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        return self._torch_tap.registered()
