"""APIs that the configuration adds to the wrapped ones, with ``custom_apis``.

    {"custom_apis": {"my_package.fused": ["attention", "Norm.apply"]}}   my_package.fused.attention.0.forward
    {"custom_apis": "my_apis.yaml"}                                     the same mapping in a file of the user

A function that does not exist yet is looked for again at a later start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.capture.dotted import find_holder
from msprobe.core.config import DumpConfig
from msprobe.core.config.read import read_file
from msprobe.core.config.rules import module_name_problems
from msprobe.core.errors import ConfigError, FileCheckException, MsprobeException, Problem
from msprobe.core.log import first_time, logger


class Adding(Protocol):
    """A tap that functions can be added to."""

    def add_listed(self, owner: Any, name: str, prefix: str) -> None:
        """Wrap one more function from now on; raises MsprobeException where it cannot be replaced."""
        ...


class ListedApis:
    """The APIs that one configuration lists, and which of them the session has registered.

    Raises:
        ConfigError: the file does not map module names to lists of API names.
        FileCheckException: the file cannot be used.
    """

    def __init__(self, config: DumpConfig) -> None:
        self._lists = _listed_names(config.custom_apis)
        self._registered: set[tuple[str, str]] = set()
        self._modules_seen = -1

    def refresh(self, tap: Adding) -> None:
        """Register the APIs that have become available; does nothing while no module was imported since."""
        if len(sys.modules) == self._modules_seen:
            return
        self._register_new(tap)
        self._modules_seen = len(sys.modules)

    def _register_new(self, tap: Adding) -> None:
        for path, names in self._lists.items():
            self._add_listed(tap, path, names)

    def _add_listed(self, tap: Adding, path: str, names: tuple[str, ...]) -> None:
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


def _listed_names(custom_apis: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the names of APIs by module, read from a file where the configuration gives a path.

    Raises:
        ConfigError: the file does not map module names to lists of API names.
        FileCheckException: the file cannot be used.
    """
    if custom_apis is None or isinstance(custom_apis, Mapping):
        return custom_apis or {}
    try:
        written = read_file(Path(custom_apis), least='{"package.module": ["function"]}').raw
    except FileCheckException as error:
        raise FileCheckException(error.code, f"custom_apis: {error.error_info}") from None
    for key, names in written.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(
                [Problem(str(key), names, 'must be a list of API names, such as ["attention"]')], custom_apis
            )
    if problems := module_name_problems("", written):
        raise ConfigError(problems, custom_apis)
    return {key: tuple(names) for key, names in written.items()}
