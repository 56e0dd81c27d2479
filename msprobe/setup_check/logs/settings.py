"""Settings that reinforcement learning frameworks print when they start, read from their logs.

verl prints one dict of all settings, in lines with a prefix such as ``(TaskRunner pid=123)``; slime prints the table of
Megatron's arguments, ``  lr ........ 1e-06``, or ``Namespace(lr=1e-06, ...)``.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msprobe.core.errors import ReadError
from msprobe.setup_check.collection.environment import HIDDEN, is_secret

LogKind = Literal["verl", "slime"]
_SUFFIXES = {".log", ".txt"}
_LARGEST = 1 << 30
_MOST_LINES = 200_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(r"\([\w.:/ =-]*pid=\d+[^)]*\)\s?")
_VERL_START = re.compile(r"\{'actor_rollout_ref':|\{'[a-z_]+': \{")
_TABLE_START = re.compile(r"-{3,} arguments -{3,}")
_TABLE_END = re.compile(r"-{3,} end of arguments -{3,}")
_TABLE_LINE = re.compile(r"\s*([\w-]+) \.{2,} ?(.*)")
_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[{}()\[\]]""")
"""A text in quotes, inside which brackets mean nothing, or a bracket."""
_LEFT_OUT = ("profiler/", "ray_")


def read_log(path: Path, kind: LogKind) -> dict[str, Any]:
    """Return the settings in a log, nested as they were printed.

    Raises:
        ReadError: the file is missing, no log, or holds no settings.
    """
    lines = _lines(path)
    settings = _verl_settings(lines) if kind == "verl" else _slime_settings(lines)
    if not settings:
        what = "the dict of settings that verl prints" if kind == "verl" else "the table of arguments that slime prints"
        raise ReadError(f"{path}: no settings in it ({what} when it starts); give the log from its beginning")
    return {key: HIDDEN if is_secret(key) and isinstance(value, str) else value for key, value in settings.items()}


def flat_log(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as one table, names joined with ``/``, without those of profilers and Ray."""
    return {
        name: HIDDEN if isinstance(value, str) and is_secret(name.rpartition("/")[2]) else value
        for name, value in _flat(settings, ())
        if not any(mark in name for mark in _LEFT_OUT)
    }


def _flat(table: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*keys, str(key)))
        else:
            yield "/".join((*keys, str(key))), value


def _lines(path: Path) -> list[str]:
    if path.suffix not in _SUFFIXES:
        raise ReadError(f"{path}: no log; give a file that ends in .log or .txt")
    try:
        if path.stat().st_size > _LARGEST:
            raise ReadError(f"{path}: larger than {_LARGEST >> 30} GB; give its beginning")
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = itertools.islice(file, _MOST_LINES)
            return [_PREFIX.sub("", _COLOUR.sub("", line.rstrip("\n"))) for line in lines]
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error})") from error


def _verl_settings(lines: list[str]) -> dict[str, Any]:
    """Return the first printed dict of at least two nested tables."""
    for start, line in enumerate(lines):
        at = match.start() if (match := _VERL_START.search(line)) else -1
        if at < 0:
            continue
        value = _dict_at([line[at:], *lines[start + 1 :]])
        if value is not None and sum(isinstance(part, dict) for part in value.values()) > 1:
            return value
    return {}


def _dict_at(lines: list[str]) -> dict[str, Any] | None:
    """Return the dict that begins the first line; None when it does not end, or is no literal."""
    text, depth = "\n".join(lines[: _MOST_LINES // 10]), 0
    for token in _TOKEN.finditer(text):
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return _literal(text[: token.end()])
    return None


def _literal(text: str) -> dict[str, Any] | None:
    """Return the dict that a text writes; only literals are read, nothing is executed."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _slime_settings(lines: list[str]) -> dict[str, Any]:
    begin = next((number for number, line in enumerate(lines) if _TABLE_START.search(line)), None)
    if begin is not None:
        end = next((n for n in range(begin, len(lines)) if _TABLE_END.search(lines[n])), len(lines))
        matches = (_TABLE_LINE.fullmatch(line) for line in lines[begin + 1 : end])
        return {match[1]: _scalar(match[2].strip()) for match in matches if match}
    for line in lines:
        if (at := line.find("Namespace(")) >= 0:
            return _namespace(line[at:])
    return {}


def _namespace(text: str) -> dict[str, Any]:
    """Return the arguments of ``Namespace(lr=1e-06, seed=3)``; values that are no literals are their text."""
    try:
        call = ast.parse(text[: text.rindex(")") + 1], mode="eval").body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if not isinstance(call, ast.Call):
        return {}
    return {word.arg: _scalar(ast.unparse(word.value)) for word in call.keywords if word.arg}


def _scalar(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
