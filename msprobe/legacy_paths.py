"""Import paths of earlier versions, kept working from one table (``legacy_paths.yaml``).

    from msprobe.pytorch.debugger.precision_debugger import PrecisionDebugger     # is msprobe.pytorch.PrecisionDebugger

The finder is asked only for modules below ``msprobe`` that do not exist, so a module of today always wins. Nothing is
loaded until an attribute is used.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_tables: dict[str, dict[str, dict[str, str]]] = {}


def install() -> None:
    """Let the import system know the old paths. Cheap; the table is read at the first use."""
    if not any(isinstance(finder, LegacyFinder) for finder in sys.meta_path):
        sys.meta_path.append(LegacyFinder())


def extra(module: str, name: str) -> Any:
    """The older attribute ``name`` of a module of today.

    Raises:
        AttributeError: there is none.
    """
    target = None if name.startswith("_") else _table("extras").get(module, {}).get(name)
    if target is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _resolve(target)


def legacy_modules() -> dict[str, dict[str, str]]:
    """The table: old module, attribute, where it is now."""
    return _table("modules")


class LegacyFinder:
    """A meta path finder for the modules in the table (implements the protocol of ``sys.meta_path``)."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(f"{_PACKAGE}.") or name.rpartition(".")[2].startswith("_"):
            return None
        if name in _table("modules"):
            package = "main" not in _table("modules")[name]  # Python runs no package by its name
            return importlib.machinery.ModuleSpec(name, _LegacyLoader(), is_package=package)  # type: ignore[arg-type]
        close = _nearest(name)
        hint = f"; did you mean {close!r}?" if close else ""
        raise ModuleNotFoundError(f"No module named {name!r} in this version of msprobe{hint}", name=name)


class _LegacyLoader:
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        attributes = _table("modules")[spec.name]
        module = _LegacyModule(spec.name, "An import path of an earlier version.")
        module.__all__ = [name for name in attributes if name != "call"]  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: attributes are found when they are used."""

    def get_code(self, name: str) -> CodeType:
        """Return what ``python -m NAME`` runs: the attribute ``main`` of the module."""
        return compile(f"import sys\nfrom {name} import main\nsys.exit(main())\n", f"<{name}>", "exec")


class _LegacyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        target = _table("modules")[self.__name__].get(name)
        if target is None or name == "call":
            known = ", ".join(self.__all__) or "nothing"
            raise AttributeError(f"module {self.__name__!r} (an older import path) has no {name!r}; it offers {known}")
        value = _resolve(target)
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Some names were both a module and the function in it."""
        meant = _table("modules")[self.__name__].get("call")
        if meant is None:
            raise TypeError(f"module {self.__name__!r} is not callable")
        return getattr(self, meant)(*args, **kwargs)


def load(module: str, name: str) -> Any:
    """Load a module and return an attribute of it.

    Raises:
        ImportError: a name that the module needs is missing in another package. As an AttributeError Python would take
            it to mean that the facade has no such name, and would hide it.
    """
    try:
        loaded = importlib.import_module(module)
    except AttributeError as error:
        raise ImportError(f"{module} cannot be loaded: {error}", name=module) from error
    return getattr(loaded, name)


def _resolve(target: str) -> Any:
    module, attribute = target.split(":")
    return load(module, attribute)


def _table(section: str) -> dict[str, dict[str, str]]:
    if not _tables:
        from msprobe.core.yaml_file import load_table

        _tables.update(load_table(_PACKAGE, "legacy_paths.yaml"))
    return _tables[section]


def _nearest(name: str) -> str | None:
    import difflib

    last = name.rpartition(".")[2]
    same_end = [known for known in _table("modules") if known.rpartition(".")[2] == last]
    found = difflib.get_close_matches(name, same_end or _table("modules"), n=1, cutoff=0.7)
    return found[0] if found else None
