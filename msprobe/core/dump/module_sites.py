"""The modules that ``start`` was given, by identity: named when they are met, forgotten when they die."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from msprobe.core.dump.modules import ModuleSite

Known = tuple[weakref.ref[Any], ModuleSite]
OwnParameters = Callable[[Any], Iterable[tuple[str, Any]]]


class ModuleSites:
    """The site of each module.

    ``known`` is by ``id``, and always the same dict: the patched call looks modules up in it.
    """

    def __init__(self) -> None:
        self.known: dict[int, Known] = {}
        self._first: dict[
            str, ModuleSite
        ] = {}  # several models may have modules of one name: the first numbers for all

    def of(self, module: Any) -> ModuleSite | None:
        known = self.known.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    def know(self, stem: str, module: Any, own_parameters: OwnParameters) -> ModuleSite:
        """The site of a module from now on; a second one of the same name counts its calls on with the first."""
        site = make_site(stem, module, own_parameters)
        first = self._first.setdefault(stem, site)
        if first is not site:
            site.follow(first)
        remember(self.known, module, site)
        return site

    def all(self) -> list[Known]:
        """As they are now: a module that dies meanwhile does no harm."""
        return list(self.known.values())

    def reset(self) -> None:
        """Number everything from 0 again: a new step begins."""
        for site in self._first.values():
            site.reset()
        for _, site in self.all():
            if self._first.get(site.stem) is not site:
                site.reset()


def make_site(stem: str, module: Any, own_parameters: OwnParameters) -> ModuleSite:
    """A site that does not keep its module alive."""
    return ModuleSite(stem, functools.partial(_of_living, own_parameters, weakref.ref(module)))


def remember(known: dict[int, Known], module: Any, site: ModuleSite) -> None:
    """Enter ``module`` for as long as it lives."""
    known[id(module)] = weakref.ref(module, functools.partial(_forget, known, id(module))), site


def _of_living(own_parameters: OwnParameters, reference: weakref.ref[Any]) -> Iterable[tuple[str, Any]]:
    module = reference()
    return () if module is None else own_parameters(module)


def _forget(known: dict[int, Known], identity: int, reference: Any) -> None:
    if identity in known and known[identity][0] is reference:
        del known[identity]
