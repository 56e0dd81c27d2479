"""Reads files that hold one JSON object, with a one-line message for any fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_core import from_json

from msprobe.core.errors import ReadError


def read_json_object(path: Path, such_as: str = "", remedy: str = "") -> dict[str, Any]:
    """Return the object in ``path``; NaN and Infinity are read as numbers.

    Args:
        path: the file.
        such_as: an example of the expected content, for the message when the file holds something else.
        remedy: what the user can do, for every message.

    Raises:
        ReadError: the file cannot be read, is not JSON, or does not hold an object.
    """
    advice = remedy and f"; {remedy}"
    try:
        content = from_json(path.read_bytes(), allow_inf_nan=True, cache_strings="all")
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error}){advice}") from error
    except ValueError as error:
        raise ReadError(f"{path}: not valid JSON ({error}){advice}") from error
    if not isinstance(content, dict):
        raise ReadError(f"{path}: not a JSON object{such_as and f' such as {such_as}'}{advice}")
    return content
