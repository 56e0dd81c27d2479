"""Wrap the functions of a framework, those that a user registers, and those that ``custom_apis`` lists.

``WrappedApis`` makes the wrappers once per session; they are in place only between start and stop. ``ListedApis`` adds
the functions of the configuration:

    {"custom_apis": {"my_package.fused": ["attention", "Norm.apply"]}}   my_package.fused.attention.0.forward
    {"custom_apis": "my_apis.yaml"}                                     the same mapping in a file of the user

A function that does not exist yet is looked for again at each later start.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches, find_holder, require_patchable
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import bind_like_original, wrap
from msprobe.core.config import DumpConfig
from msprobe.core.config.path_checks import listed_apis
from msprobe.core.errors import MsprobeException
from msprobe.core.log import first_time, logger


class WrappedApis:
    """Implements ``ApiTap`` for functions that need nothing but ``wrap``. ``listed`` is refreshed at each ``attach``.

    Args:
        passes_risk: the risk test over API names; an API that fails it is counted but not recorded.
        current: holds the current observer.
        thread: is made busy while a call is observed.
        listed: the APIs that the configuration adds.
    """

    def __init__(
        self,
        passes_risk: Callable[[str], bool],
        current: CurrentObserver,
        thread: ThreadState,
        listed: ListedApis | None = None,
    ) -> None:
        self._passes_risk = passes_risk
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._registered: dict[tuple[int, str], tuple[Any, str, str, Any]] = {}
        self._listed_keys: set[tuple[int, str]] = set()
        self._listed = listed

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
        site.passes_risk = site.passes_risk and (self._passes_risk(api) or self._passes_risk(listed or api))
        return site

    def site_of(self, stem: str) -> CallSite | None:
        """Return the site of the calls named ``stem``, such as ``Torch.relu``; None where no wrapper has it."""
        prefix, _, api = stem.rpartition(".")
        return self._sites.get((prefix, api))

    def _refresh_listed(self) -> None:
        if self._listed is not None:
            self._listed.refresh(self)

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

        def make() -> Any:
            return bind_like_original(
                owner, name, lambda original: wrap(self._inside_call(site, original), site, self._current, self._thread)
            )

        replacement = make()
        self._patches.plan(owner, name, replacement, make)
        return replacement

    def _inside_call(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what runs inside an observed call of ``original``."""
        return original


class ListedApis:
    """The APIs that one configuration lists, and which of them the session has registered.

    Raises:
        ConfigError: the file does not map module names to lists of API names.
        FileCheckException: the file cannot be used.
    """

    def __init__(self, config: DumpConfig) -> None:
        self._lists = listed_apis(config.custom_apis)
        self._registered: set[tuple[str, str]] = set()
        self._modules_seen = -1

    def refresh(self, tap: WrappedApis) -> None:
        """Register the APIs that have become available; does nothing while no module was imported since."""
        if len(sys.modules) == self._modules_seen:
            return
        self._register_new(tap)
        self._modules_seen = len(sys.modules)

    def _register_new(self, tap: WrappedApis) -> None:
        for path, names in self._lists.items():
            self._add_listed(tap, path, names)

    def _add_listed(self, tap: WrappedApis, path: str, names: tuple[str, ...]) -> None:
        missing = [name for name in names if (path, name) not in self._registered]
        owner = _owner(path) if missing else None
        for name in missing:
            holder, last = find_holder(owner, name)
            if holder is None or not callable(getattr(holder, last, None)):
                if first_time(("custom_apis", path, name)):
                    logger.warning("custom_apis: %s has no function %s (yet); it is not recorded", path, name)
                continue
            self._registered.add((path, name))
            try:
                tap.add_listed(holder, last, ".".join([path, *name.split(".")[:-1]]))
            except MsprobeException as error:
                logger.warning("custom_apis: %s", error.error_info)


def _owner(path: str) -> Any:
    """Return the module at ``path``, or the class inside one; None when it cannot be imported."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            owner: Any = importlib.import_module(name)
        except ImportError:
            continue
        for part in parts[cut:]:
            owner = getattr(owner, part, None)
        return owner
    return None
