"""Names with dots: a function listed below a module may lie in a submodule or a class of it."""

from __future__ import annotations

from typing import Any


def find_holder(owner: Any, name: str) -> tuple[Any, str]:
    """Return the object below ``owner`` that holds the last part of ``name``, and that part.

    The object is None where one on the way is missing.
    """
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return owner, last
