"""APIs that the configuration adds to the wrapped ones: ``custom_apis`` and all operators of ``custom_op_namespaces``.

    {"custom_apis": {"my_package.fused": ["attention", "Norm.apply"]}}   my_package.fused.attention.0.forward
    {"custom_apis": "my_apis.yaml"}                                     the same mapping in a file of the user
    {"custom_op_namespaces": ["my_ops"]}                                torch.ops.my_ops.twice -> my_ops.twice.0.forward

What is not there yet is looked for again at a later start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from msprobe.core.backend.protocols import ApiTap
from msprobe.core.backend.support import DEFAULT_NAMESPACES
from msprobe.core.capture.dotted import find_holder
from msprobe.core.config import DumpConfig
from msprobe.core.config.read import read_file
from msprobe.core.config.rules import module_name_problems
from msprobe.core.errors import ConfigError, FileCheckException, MsprobeException, Problem
from msprobe.core.log import logger, once


class ListedApis:
    """What one session has registered so far. ``refresh`` costs nothing while no module was imported in between."""

    def __init__(self, config: DumpConfig) -> None:
        self._lists = _lists(config.custom_apis)
        self._namespaces = config.custom_op_namespaces
        self._done: set[tuple[str, str]] = set()
        self._modules_seen = -1

    def refresh(self, tap: ApiTap) -> None:
        """Register what has become available since the last time."""
        if len(sys.modules) == self._modules_seen:
            return
        for path, names in self._lists.items():
            self._add_listed(tap, path, names)
        for namespace in self._namespaces:
            self._add_operators(tap, namespace)
        self._modules_seen = len(sys.modules)

    def _add_listed(self, tap: ApiTap, path: str, names: tuple[str, ...]) -> None:
        missing = [name for name in names if (path, name) not in self._done]
        owner = _owner(path) if missing else None
        for name in missing:
            holder, last = find_holder(owner, name)
            if holder is None or not callable(getattr(holder, last, None)):
                if once(("custom_apis", path, name)):
                    logger.warning("custom_apis: %s has no function %s (yet); it is not recorded", path, name)
                continue
            self._done.add((path, name))
            try:
                tap.add(holder, last, ".".join([path, *name.split(".")[:-1]]))
            except MsprobeException as error:
                logger.warning("custom_apis: %s", error.error_info)

    def _add_operators(self, tap: ApiTap, namespace: str) -> None:
        head = f"{namespace}::"
        listed = torch._C._dispatch_get_all_op_names()
        names = {name[len(head) :].partition(".")[0] for name in listed if name.startswith(head)}
        if not names and namespace not in DEFAULT_NAMESPACES and once(("custom_op_namespaces", namespace)):
            logger.warning(
                "custom_op_namespaces: torch.ops.%s has no operators (yet); nothing of it is recorded", namespace
            )
        added = sorted(name for name in names if (head, name) not in self._done)
        for name in added:
            owner = getattr(torch.ops, namespace)
            packet = getattr(owner, name, None)
            if packet is not None:
                for overload in packet.overloads():  # once asked for, they are attributes, which a wrapper takes over
                    getattr(packet, overload)
                tap.add(owner, name, namespace)
            self._done.add((head, name))
        if added:
            logger.info("%d operators of torch.ops.%s are recorded too", len(added), namespace)


def _owner(path: str) -> Any:
    """The module at ``path``, or the class inside one; None when it cannot be imported."""
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


def _lists(given: Any) -> Mapping[str, tuple[str, ...]]:
    """The mapping of a configuration, read from its file where it is a path.

    Raises:
        ConfigError: the file does not map module names to lists of API names.
        FileCheckException: the file cannot be used.
    """
    if given is None or isinstance(given, Mapping):
        return given or {}
    try:
        written = read_file(Path(given), least='{"package.module": ["function"]}').raw
    except FileCheckException as error:
        raise FileCheckException(error.code, f"custom_apis: {error.error_info}") from None
    for key, names in written.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError([Problem(str(key), names, 'must be a list of API names, such as ["attention"]')], given)
    if problems := module_name_problems("", written):
        raise ConfigError(problems, given)
    return {key: tuple(names) for key, names in written.items()}
