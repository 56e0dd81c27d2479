"""One named module of a model: how its calls and its parameter gradients are named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class ModuleSite:
    """The names of the calls of one module, and access to its own parameters.

    Args:
        stem: ``Module.path.Class``.
        parameters: gives the module's direct parameters by key at the time it is asked.
    """

    __slots__ = ("_firings", "_first_key", "_twin", "calls", "last_parent", "parameters", "stem")

    def __init__(self, stem: str, parameters: Callable[[], Iterable[tuple[str, Any]]]) -> None:
        self.stem = stem
        self.parameters = parameters
        self.calls: Iterator[int] = itertools.count()
        self.last_parent: str | None = None
        self._first_key: str | None = None
        self._firings = -1
        self._twin: ModuleSite | None = None

    def follow(self, twin: ModuleSite) -> None:
        """Number calls and gradients together with another module of the same name, one of another model."""
        self._twin = twin
        self.calls = twin.calls

    def reset(self) -> None:
        """A new step: everything is numbered from 0 again. A twin that was met first is reset first."""
        self.calls = itertools.count() if self._twin is None else self._twin.calls
        self.last_parent = None
        self._first_key = None
        self._firings = -1

    @property
    def called(self) -> bool:
        """Whether a call has been numbered since the last ``reset``."""
        return repr(self.calls) != repr(itertools.count())

    def gradient_name(self, key: str) -> str:
        """The entry for the gradient of parameter ``key``; a new number begins when the first parameter comes again."""
        if self._twin is not None:
            return self._twin.gradient_name(key)
        if self._first_key is None or self._first_key == key:
            self._first_key = key
            self._firings += 1
        return f"{self.stem}.parameters_grad.{self._firings}"
