"""What ``register_custom_api(module, api, api_prefix)`` is given: a function by its owner and name."""

from __future__ import annotations

from typing import Any

from msprobe.core.config.problems import nearest
from msprobe.core.errors import MsprobeException, argument_text

_CALL = "register_custom_api"


def check_function(owner: Any, name: Any, prefix: Any) -> None:
    """Refuse what names no function.

    Raises:
        MsprobeException: code 0.
    """
    if isinstance(owner, str) or owner is None:
        raise MsprobeException(
            0, f"{_CALL}: module must be a module, class or object, not its name, got {argument_text(owner)}"
        )
    if not isinstance(name, str):
        raise MsprobeException(0, f"{_CALL}: api must be the name of a function (str), got {argument_text(name)}")
    if not callable(getattr(owner, name, None)):
        close = nearest(name, dir(owner))
        hint = f"did you mean {close!r}?" if close else "give the name of one that it has"
        raise MsprobeException(0, f"{_CALL}: {owner_name(owner)} has no function {argument_text(name)}; {hint}")
    if prefix is not None and not isinstance(prefix, str):
        raise MsprobeException(0, f"{_CALL}: api_prefix must be a str, got {argument_text(prefix)}")


def owner_name(owner: Any) -> str:
    """The head of the entries of its functions."""
    return str(getattr(owner, "__name__", "Custom"))
