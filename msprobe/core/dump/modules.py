"""One named module of a model: how its calls and its parameter gradients are named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class ModuleSite:
    """The names of the calls of one module, and access to its own parameters.

    Args:
        stem: ``Module.path.Class``.
        parameters: returns the module's direct parameters by key, as they are at that time.

    Attributes:
        calls: yields the numbers of the calls.
        last_parent: the parent of the latest call; a recomputation of the call has the same one.
    """

    __slots__ = ("_first_key", "_gradient_number", "_shared", "calls", "last_parent", "parameters", "stem")

    def __init__(self, stem: str, parameters: Callable[[], Iterable[tuple[str, Any]]]) -> None:
        self.stem = stem
        self.parameters = parameters
        self.calls: Iterator[int] = itertools.count()
        self.last_parent: str | None = None
        self._first_key: str | None = None
        self._gradient_number = -1
        self._shared: ModuleSite | None = None

    def share_numbers(self, first: ModuleSite) -> None:
        """Number calls and gradients together with ``first``, a module of another model under the same name."""
        self._shared = first
        self.calls = first.calls

    def reset(self) -> None:
        """Number everything from 0 again: a new step begins.

        Modules registered under one name share a counter; the first registered one owns it, and is reset first.
        """
        self.calls = itertools.count() if self._shared is None else self._shared.calls
        self.last_parent = None
        self._first_key = None
        self._gradient_number = -1

    @property
    def called(self) -> bool:
        """Whether a call has been numbered since the last ``reset``."""
        return repr(self.calls) != repr(itertools.count())

    def gradient_name(self, key: str) -> str:
        """Return the entry for the gradient of parameter ``key``.

        A new number begins when the parameter that came first comes again.
        """
        if self._shared is not None:
            return self._shared.gradient_name(key)
        if self._first_key is None or self._first_key == key:
            self._first_key = key
            self._gradient_number += 1
        return f"{self.stem}.parameters_grad.{self._gradient_number}"
