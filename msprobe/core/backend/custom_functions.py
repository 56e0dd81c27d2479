"""Functions of the user, by the modules that the user names for prefixes of recorded calls.

A dump never says what is imported: a name of it is looked up below a module that was named on the command line.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.errors import InterfaceError, error_text


def import_custom(named: Mapping[str, str]) -> dict[str, Any]:
    """Return the modules that a user has named, by prefix.

    Args:
        named: prefix -> module, or an object in it: ``{"Lib": "package.module", "my_ops": "torch.ops.my_ops"}``.

    Raises:
        InterfaceError: one cannot be imported.
    """
    return {prefix: _imported(name) for prefix, name in named.items()}


def find_custom(modules: Mapping[str, Any], prefix: str, api: str) -> Callable[..., Any] | None:
    """Return the function ``PREFIX.API`` below the modules of the user; None where there is none."""
    whole = f"{prefix}.{api}"
    for known, module in modules.items():
        if whole.startswith(f"{known}."):
            found = module
            for part in whole[len(known) + 1 :].split("."):
                found = getattr(found, part, None)
            if callable(found):
                return found  # type: ignore[no-any-return]
    return None


def _imported(name: str) -> Any:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        except Exception as error:
            raise InterfaceError(f"--custom {name}: cannot be imported: {error_text(error)}") from error
        for part in parts[length:]:
            found = getattr(found, part, None)
        if found is not None:
            return found
    raise InterfaceError(f"--custom {name}: no such module; give one that Python can import from here")
