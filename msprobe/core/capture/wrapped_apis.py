"""The functions of a framework with wrappers planned in their place: those of its tables, and those a user registers.

Wrappers are made once per session and put in place only between start and stop; outside, every attribute is the
original.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msprobe.core.capture.binding import bound_alike
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches, require_patchable
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap


class Listed(Protocol):
    """Adds the APIs that the configuration lists, as far as they exist by now."""

    def refresh(self, tap: Any) -> None: ...


class WrappedApis:
    """Implements ``ApiTap`` for functions that need nothing but ``wrap``. ``listed`` is asked at each ``attach``.

    Args:
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
    """

    def __init__(self, recorded: Callable[[str], bool], relay: Relay, thread: ThreadState) -> None:
        self._recorded = recorded
        self._relay = relay
        self._thread = thread
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._registered: dict[tuple[int, str], tuple[Any, str, str, Any]] = {}
        self._of_lists: set[tuple[int, str]] = set()
        self.listed: Listed | None = None

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._look_for_listed()
        with self._patches.in_force():
            yield

    def reset(self) -> None:
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
        """Wrap a function that the configuration lists, unless the program has registered it itself. It goes with the
        configuration: it is not among the ``registered``. Raises as ``add``.
        """
        if (id(owner), name) not in self._registered:
            self.add(owner, name, prefix)
            self._of_lists.add((id(owner), name))

    def remove(self, owner: Any, name: str) -> None:
        self._of_lists.discard((id(owner), name))
        known = self._registered.pop((id(owner), name), None)
        if known is not None and known[3] is not None:
            self._patches.drop(owner, name, known[3])

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        own = {key: known for key, known in self._registered.items() if key not in self._of_lists}
        return [(owner, name, prefix) for owner, name, prefix, _ in own.values()]

    def site(self, prefix: str, api: str, listed: str = "") -> CallSite:
        """The counter of one API; all its wrappers share it. ``listed``: its name in the table, where that has dots."""
        site = self._sites.setdefault((prefix, api), CallSite(prefix, api))
        site.recorded = site.recorded and (self._recorded(api) or self._recorded(listed or api))
        return site

    def _look_for_listed(self) -> None:
        if self.listed is not None:
            self.listed.refresh(self)

    def _plan_table(self, table: Mapping[str, Sequence[str]], owners: Mapping[str, Any]) -> None:
        """Wrap what a table of names by prefix lists, as far as it exists."""
        for prefix, names in table.items():
            for name in names:
                self._plan(owners[prefix], name, prefix)

    def _plan(self, owner: Any, name: str, prefix: str) -> Any:
        """Plan what takes the place of one function and return it; None when there is no such function."""
        if not callable(getattr(owner, name, None)):
            return None
        site = self.site(prefix, name)
        replacement = bound_alike(owner, name, lambda original: wrap(original, site, self._relay, self._thread))
        self._patches.plan(owner, name, replacement)
        return replacement
