"""The names of the modules that ``start`` got: how their calls and their parameter gradients are named.

``ModuleNames`` finds a ``NamedModule`` by the identity of the module. An entry is removed when its module dies.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msprobe.core.interruption import let_through


class NamedModule:
    """The names of the calls of one module, and access to its own parameters.

    Args:
        stem: ``Module.path.Class``.
        parameters: returns the module's direct parameters by key, as they are at that time.
        training: returns whether the module is in training mode; None when that is not known.

    Attributes:
        calls: yields the numbers of the calls.
        last_parent: the parent of the latest call; a recomputation of the call has the same one.
    """

    __slots__ = ("_first_key", "_gradient_number", "_shared", "calls", "last_parent", "parameters", "stem", "training")

    def __init__(
        self,
        stem: str,
        parameters: Callable[[], Iterable[tuple[str, Any]]],
        training: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self.stem = stem
        self.parameters = parameters
        self.training = training
        self.calls: Iterator[int] = itertools.count()
        self.last_parent: str | None = None
        self._first_key: str | None = None
        self._gradient_number = -1
        self._shared: NamedModule | None = None

    def share_numbers(self, first: NamedModule) -> None:
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

    def repeats(self) -> bool:
        """Return whether the module was called more often than once and once again by a recomputation.

        That is so for each time that its gradients arrive, hence for each micro batch.
        """
        if self._shared is not None:
            return True
        count = int(repr(self.calls)[len("count(") : -1])
        return count > 2 * (self._gradient_number + 2)

    def gradient_name(self, key: str) -> str:
        """Return the entry for the gradient of parameter ``key``.

        A new number begins when the gradient of the first parameter arrives again.
        """
        if self._shared is not None:
            return self._shared.gradient_name(key)
        if self._first_key is None or self._first_key == key:
            self._first_key = key
            self._gradient_number += 1
        return f"{self.stem}.parameters_grad.{self._gradient_number}"


Entry = tuple[weakref.ref[Any], NamedModule]
"""A weak reference to a module, and its names."""
OwnParameters = Callable[[Any], Iterable[tuple[str, Any]]]


class ModuleNames:
    """The names of modules.

    Attributes:
        by_id: the entries by ``id`` of the module. It is always the same dict: the patched call looks modules up in it.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Entry] = {}
        self._first: dict[str, NamedModule] = {}  # the first module of each name owns the counters of that name

    def get(self, module: Any) -> NamedModule | None:
        """Return the names of ``module``; None when it is not registered."""
        entry = self.by_id.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def register(self, stem: str, module: Any, own_parameters: OwnParameters) -> NamedModule:
        """Name a module. A second module of the same name continues the numbers of the first."""
        site = make_named_module(stem, module, own_parameters)
        first = self._first.setdefault(stem, site)
        if first is not site:
            site.share_numbers(first)
        add_entry(self.by_id, module, site)
        return site

    def site_of(self, stem: str) -> NamedModule | None:
        """Return the site that numbers the calls named ``stem``; None where there is no module of this name."""
        return self._first.get(stem)

    def items(self) -> list[Entry]:
        """Return a copy of the entries: a module may die while a caller iterates."""
        return list(self.by_id.values())

    def reset(self) -> None:
        """Number everything from 0 again: a new step begins."""
        for site in self._first.values():
            site.reset()
        for _, site in self.items():
            if self._first.get(site.stem) is not site:
                site.reset()


def make_named_module(stem: str, module: Any, own_parameters: OwnParameters) -> NamedModule:
    """Return the names of a module, without a strong reference to the module."""
    reference = weakref.ref(module)
    return NamedModule(
        stem,
        functools.partial(_parameters_if_alive, own_parameters, reference),
        functools.partial(_training_if_alive, reference),
    )


def add_entry(entries: dict[int, Entry], module: Any, site: NamedModule) -> None:
    """Add ``module`` to ``entries`` for as long as it lives.

    No Python code runs when it dies: Python drops what a handler of the program raises at such a moment.
    """
    entries[id(module)] = weakref.ref(module, functools.partial(entries.pop, id(module))), site


def _parameters_if_alive(own_parameters: OwnParameters, reference: weakref.ref[Any]) -> Iterable[tuple[str, Any]]:
    module = reference()
    return () if module is None else own_parameters(module)


def _training_if_alive(reference: weakref.ref[Any]) -> bool | None:
    """Return the flag ``training`` of the module; None when it is no flag, or cannot be read."""
    module = reference()
    try:
        training = getattr(module, "training", None)
    except Exception as error:  # noqa: BLE001  (a property of the user's class costs the flag, not the record)
        let_through(error)
        return None
    return training if type(training) is bool else None
