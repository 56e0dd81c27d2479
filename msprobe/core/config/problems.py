"""Convert errors of pydantic to ``Problem`` values that a user can act on.

pydantic says ``('statistics', 'data_mode', 0): Input should be 'all', ...``. A user of config.json needs the JSON path,
the present value, what is allowed and, for a misspelt word, the word that was probably meant.
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
ADVISED_KEYS: Mapping[str, str] = {
    "filters": "choose calls with `scope` and `list`, values with `data_mode`, runs with `step` and `rank`",
    "keep_all_ranks": "every rank writes its own data where `rank` is [] or left out",
    "token_range": "it is an argument: `debugger.start(model, token_range=[first, last])`",
    "dump_config": "it belongs to --additional-config of vLLM: give its content here",
    "dump_config_path": "it belongs to --additional-config of vLLM: give the content of that file here",
}
"""Keys that pages of the published tool and of servers name and its configuration does not have, with what to do."""
_BOUNDS = {"greater_than_equal": ("ge", "must be at least"), "less_than_equal": ("le", "must be at most")}


def problems_of(error: ValidationError) -> list[Problem]:
    """Return all problems of one validation, in the order of the model's fields."""
    errors = error.errors(include_url=False)
    paths = [tuple(item["loc"]) for item in errors]
    # For an element that failed, pydantic also reports that its list is too short; this echo would only confuse.
    return [_problem(item) for item, path in zip(errors, paths, strict=True) if not _is_echo(item, path, paths)]


def path_of(location: Sequence[int | str]) -> str:
    """Return ``("statistics", "scope", 1)`` as ``statistics.scope[1]``, without parts like ``<list>`` and ``[key]``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith(("<", "[")):
            path += f".{part}" if path else part
    return path


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice that ``word`` most likely is a misspelling of, ignoring case; None when nothing is close."""
    if not isinstance(word, str):
        return None
    by_folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def _is_echo(item: Any, path: tuple[Any, ...], paths: Sequence[tuple[Any, ...]]) -> bool:
    inside = (other for other in paths if len(other) > len(path) and other[: len(path)] == path)
    return item["type"] == "too_short" and any(inside)


def _problem(item: Any) -> Problem:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    path = path_of(item["loc"])
    if kind == "missing":
        return Problem(path, ABSENT, _EXPECTED[kind])
    if kind == "literal_error":
        choices = _QUOTED.findall(context["expected"])
        listed = ", or a list of statistics" if "<text>" in item["loc"] else ""
        word = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
        return Problem(path, value, f"allowed: {', '.join(choices)}{listed}", _quoted(nearest(word, choices)))
    if kind == "value_error":
        return Problem(path, value, str(context["error"]))
    if kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        return Problem(path, value, f"{text} {context[key]}")
    return Problem(path, value, _EXPECTED.get(kind, item["msg"]), _converted(kind, path, value))


def _converted(kind: str, path: str, value: Any) -> str | None:
    """Return the value in the type that was expected, where the intention is clear."""
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
    """Return the type of the elements of the list at ``path``."""
    key = path.rpartition(".")[2]
    return {"slice": Mapping, "rank": str | int, "step": str | int}.get(key, str)


def _quoted(word: str | None) -> str | None:
    return None if word is None else f'"{word}"'
