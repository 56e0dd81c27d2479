"""Wrappers for the functions of a framework: those in its tables, and those that a user registers.

Wrappers are made once per session and are in place only between start and stop.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msprobe.core.capture.binding import bind_like_original
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches, require_patchable
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap


class Listed(Protocol):
    """The APIs that the configuration lists."""

    def refresh(self, tap: Any) -> None:
        """Add those that exist by now to ``tap``."""
        ...


class WrappedApis:
    """Implements ``ApiTap`` for functions that need nothing but ``wrap``. ``listed`` is asked at each ``attach``.

    Args:
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
        relay: holds the observer that is told.
        thread: is made busy while a call is observed.
    """

    def __init__(self, recorded: Callable[[str], bool], relay: Relay, thread: ThreadState) -> None:
        self._recorded = recorded
        self._relay = relay
        self._thread = thread
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._registered: dict[tuple[int, str], tuple[Any, str, str, Any]] = {}
        self._listed_keys: set[tuple[int, str]] = set()
        self.listed: Listed | None = None

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._refresh_listed()
        with self._patches.in_force():
            yield

    def reset(self) -> None:
        """Number the calls of every API from 0 again."""
        count = itertools.count
        for site in self._sites.values():  # a thousand of them per step: not by a call each
            site.calls = count()

    def add(self, owner: Any, name: str, prefix: str) -> None:
        """Wrap a function of the user; registering it again under another prefix replaces the first registration.

        Raises:
            MsprobeException: the attribute cannot be replaced.
        """
        self.remove(owner, name)
        require_patchable(owner, name, prefix)
        self._registered[(id(owner), name)] = (owner, name, prefix, self._plan(owner, name, prefix))

    def add_listed(self, owner: Any, name: str, prefix: str) -> None:
        """Wrap a function that the configuration lists, unless the program has registered it itself.

        It is not among the ``registered``, because it belongs to the configuration.

        Raises:
            MsprobeException: the attribute cannot be replaced.
        """
        if (id(owner), name) not in self._registered:
            self.add(owner, name, prefix)
            self._listed_keys.add((id(owner), name))

    def remove(self, owner: Any, name: str) -> None:
        """Record a registered function no more."""
        self._listed_keys.discard((id(owner), name))
        entry = self._registered.pop((id(owner), name), None)
        if entry is not None and entry[3] is not None:
            self._patches.drop(owner, name, entry[3])

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        """Return owner, name and prefix of each function that the program has registered."""
        own = [entry for key, entry in self._registered.items() if key not in self._listed_keys]
        return [(owner, name, prefix) for owner, name, prefix, _ in own]

    def site(self, prefix: str, api: str, listed: str = "") -> CallSite:
        """Return the site of one API, which all its wrappers share.

        Args:
            prefix: the first part of its records' names.
            api: the second part.
            listed: its name in the table, where that has dots; the risk test knows it by either.
        """
        site = self._sites.setdefault((prefix, api), CallSite(prefix, api))
        site.recorded = site.recorded and (self._recorded(api) or self._recorded(listed or api))
        return site

    def _refresh_listed(self) -> None:
        if self.listed is not None:
            self.listed.refresh(self)

    def _plan_table(self, table: Mapping[str, Sequence[str]], owners: Mapping[str, Any]) -> None:
        """Wrap the functions that a table of names by prefix lists, as far as they exist."""
        for prefix, names in table.items():
            for name in names:
                self._plan(owners[prefix], name, prefix)

    def _plan(self, owner: Any, name: str, prefix: str) -> Any:
        """Plan the replacement of one function and return it; None when there is no such function."""
        if not callable(getattr(owner, name, None)):
            return None
        site = self.site(prefix, name)
        replacement = bind_like_original(owner, name, lambda original: wrap(original, site, self._relay, self._thread))
        self._patches.plan(owner, name, replacement)
        return replacement
