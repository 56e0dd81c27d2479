"""Names that another model of the same kind has too: paths without wrappers, with ``{n}`` for numbers of layers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msprobe.check.facts.read_header import WRAPPERS

NUMBER = "{n}"
_WRAPPED = "module"
"""What wrappers of data parallelism call the model that they hold, wherever it is."""


@lru_cache(maxsize=1 << 15)
def pattern_of(path: str) -> str:
    """Return a path with ``{n}`` for each part that is a number, and without the names of wrappers."""
    return ".".join(NUMBER if part.isdecimal() else part for part in plain_path(path).split("."))


@lru_cache(maxsize=1 << 15)
def plain_path(path: str) -> str:
    """Return a path without the names of wrappers."""
    parts = WRAPPERS.sub("", path).split(".")
    return ".".join([part for part in parts if part != _WRAPPED] or parts)


def same_place(path: str, known: Iterable[str]) -> str | None:
    """Return which of the known patterns means the place of a pattern.

    It is the equal one; else the only one that ends like it, one of both being the end of the other, as where a model
    is a part of another one (``layers.{n}.mlp`` and ``model.layers.{n}.mlp``).
    """
    patterns = list(known)
    if path in patterns:
        return path
    alike = [one for one in patterns if one and path and (_ends(one, path) or _ends(path, one))]
    return alike[0] if len(alike) == 1 else None


def _ends(whole: str, part: str) -> bool:
    return whole.endswith(f".{part}")
