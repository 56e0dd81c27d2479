"""Turn what pydantic found into ``Problem`` values a person can act on.

pydantic says ``('statistics', 'data_mode', 0): Input should be 'all', ...``; a reader of config.json needs the JSON
path, the value that is there, what is allowed and, for a slip of the pen, the word that was meant.
"""

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from msprobe.core.errors import ABSENT, Problem

_QUOTED = re.compile(r"'([^']*)'")
_EXPECTED = {
    "missing": "is required",
    "bool_type": "must be true or false",
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "tuple_type": "must be a list [ ]",
    "model_type": "must be an object { }",
    "model_attributes_type": "must be an object { }",
    "dict_type": "must be an object { }",
    "string_too_short": "must not be empty",
    "too_short": "must not be an empty list",
}
_BOUNDS = {"greater_than_equal": ("ge", "must be at least"), "less_than_equal": ("le", "must be at most")}


def problems_of(error: ValidationError) -> list[Problem]:
    """All findings of one validation, in the order of the model's fields."""
    found = error.errors(include_url=False)
    places = [tuple(item["loc"]) for item in found]
    # An element that failed also makes pydantic count the list as too short; that echo would only confuse.
    return [_problem(item) for item, place in zip(found, places, strict=True) if not _is_echo(item, place, places)]


def path_of(place: Sequence[int | str]) -> str:
    """``("statistics", "scope", 1)`` as ``statistics.scope[1]``; ``<list>`` and ``[key]`` are left out."""
    path = ""
    for part in place:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith(("<", "[")):
            path += f".{part}" if path else part
    return path


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice the word is most likely a misspelling of, ignoring case; None when nothing is close."""
    if not isinstance(word, str):
        return None
    by_folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def _is_echo(item: Any, place: tuple[Any, ...], places: Sequence[tuple[Any, ...]]) -> bool:
    return item["type"] == "too_short" and any(len(o) > len(place) and o[: len(place)] == place for o in places)


def _problem(item: Any) -> Problem:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    path = path_of(item["loc"])
    if kind == "missing":
        return Problem(path, ABSENT, _EXPECTED[kind])
    if kind == "literal_error":
        choices = _QUOTED.findall(context["expected"])
        word = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
        return Problem(path, value, f"allowed: {', '.join(choices)}", _quoted(nearest(word, choices)))
    if kind == "value_error":
        return Problem(path, value, str(context["error"]))
    if kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        return Problem(path, value, f"{text} {context[key]}")
    return Problem(path, value, _EXPECTED.get(kind, item["msg"]), _rewritten(kind, path, value))


def _rewritten(kind: str, path: str, value: Any) -> str | None:
    """The value in the type that was expected, where the intention is plain."""
    if kind == "tuple_type" and isinstance(value, _element_of(path)) and not isinstance(value, bool):
        return json.dumps([dict(value) if isinstance(value, Mapping) else value], ensure_ascii=False, default=repr)
    if kind == "string_type" and isinstance(value, os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False, default=repr)
    if kind == "bool_type" and str(value).strip().casefold() in {"true", "1", "yes", "on"}:
        return "true"
    if kind == "bool_type" and str(value).strip().casefold() in {"false", "0", "no", "off"}:
        return "false"
    if kind == "int_type" and isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return value.strip()
    return None


def _element_of(path: str) -> Any:
    """What the list at ``path`` is made of."""
    key = path.rpartition(".")[2]
    return {"slice": Mapping, "rank": str | int, "step": str | int}.get(key, str)


def _quoted(word: str | None) -> str | None:
    return None if word is None else f'"{word}"'
