"""Check the arguments of ``register_custom_api(module, api, api_prefix)``, which name a function."""

from __future__ import annotations

from typing import Any

from msprobe.core.config.problems import nearest
from msprobe.core.errors import MsprobeException, argument_text

_REGISTER = "register_custom_api"


def check_function(owner: Any, name: Any, prefix: Any) -> None:
    """Raise MsprobeException when ``owner`` has no function ``name``, or ``prefix`` is no str."""
    if isinstance(owner, str) or owner is None:
        raise MsprobeException(
            0, f"{_REGISTER}: module must be a module, class or object, not its name, got {argument_text(owner)}"
        )
    if not isinstance(name, str):
        raise MsprobeException(0, f"{_REGISTER}: api must be the name of a function (str), got {argument_text(name)}")
    if not callable(getattr(owner, name, None)):
        close = nearest(name, dir(owner))
        hint = f"did you mean {close!r}?" if close else "give the name of one that it has"
        raise MsprobeException(0, f"{_REGISTER}: {owner_name(owner)} has no function {argument_text(name)}; {hint}")
    if prefix is not None and not isinstance(prefix, str):
        raise MsprobeException(0, f"{_REGISTER}: api_prefix must be a str, got {argument_text(prefix)}")


def owner_name(owner: Any) -> str:
    """Return the prefix of the entries of its functions."""
    return str(getattr(owner, "__name__", "Custom"))
