"""The modules that ``start`` was given, by identity; an entry is removed when its module dies."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from msprobe.core.dump.modules import ModuleSite

Known = tuple[weakref.ref[Any], ModuleSite]
OwnParameters = Callable[[Any], Iterable[tuple[str, Any]]]


class ModuleSites:
    """The names of modules.

    Attributes:
        by_id: the entries by ``id`` of the module. It is always the same dict: the patched call looks modules up in it.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Known] = {}
        self._first: dict[str, ModuleSite] = {}  # the first module of each name owns the counters of that name

    def get(self, module: Any) -> ModuleSite | None:
        """Return the names of ``module``; None when it is not registered."""
        entry = self.by_id.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def register(self, stem: str, module: Any, own_parameters: OwnParameters) -> ModuleSite:
        """Name a module. A second module of the same name continues the numbers of the first."""
        site = make_site(stem, module, own_parameters)
        first = self._first.setdefault(stem, site)
        if first is not site:
            site.share_numbers(first)
        remember(self.by_id, module, site)
        return site

    def items(self) -> list[Known]:
        """Return a copy of the entries: a module may die while a caller iterates."""
        return list(self.by_id.values())

    def reset(self) -> None:
        """Number everything from 0 again: a new step begins."""
        for site in self._first.values():
            site.reset()
        for _, site in self.items():
            if self._first.get(site.stem) is not site:
                site.reset()


def make_site(stem: str, module: Any, own_parameters: OwnParameters) -> ModuleSite:
    """Return the names of a module, without a strong reference to the module."""
    return ModuleSite(stem, functools.partial(_parameters_if_alive, own_parameters, weakref.ref(module)))


def remember(entries: dict[int, Known], module: Any, site: ModuleSite) -> None:
    """Add ``module`` to ``entries`` for as long as it lives."""
    entries[id(module)] = weakref.ref(module, functools.partial(_remove_entry, entries, id(module))), site


def _parameters_if_alive(own_parameters: OwnParameters, reference: weakref.ref[Any]) -> Iterable[tuple[str, Any]]:
    module = reference()
    return () if module is None else own_parameters(module)


def _remove_entry(entries: dict[int, Known], identity: int, reference: Any) -> None:
    if identity in entries and entries[identity][0] is reference:
        del entries[identity]
