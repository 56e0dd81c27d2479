"""Read a configuration from a JSON or YAML file, or from a mapping, as a plain dict.

Only the form is checked here: the file exists, can be read and holds an object. The keys are checked later.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe.core.errors import ABSENT, ConfigError, ConfigTextError, FileCheckException, MsprobeException, Problem

UNNAMED = "config"
"""The name in messages of a configuration that is no file."""
DEFAULTS = "default configuration"
_LEAST = '{"dump_path": "./dump"}'
PACKAGED_DEFAULT = Path(__file__).parents[2] / "config.json"
_JSON_SUFFIXES = {".json"}
_YAML_SUFFIXES = {".yaml", ".yml"}
_MAX_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Written:
    """A configuration as it is written: its name in messages, its keys, and remarks about its form."""

    label: str
    raw: dict[str, Any]
    remarks: tuple[str, ...] = ()


def read_source(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> Written:
    """Return the raw configuration of ``source``; None means the packaged default.

    Raises:
        FileCheckException: the path cannot be used.
        ConfigError: the text is neither JSON nor YAML, or is no object.
        MsprobeException: the source has a wrong type (code 0).
    """
    if source is None:
        return replace(read_file(PACKAGED_DEFAULT), label=DEFAULTS)
    if isinstance(source, Mapping):
        return _checked_keys(dict(source), UNNAMED, _LEAST)
    if isinstance(source, str | os.PathLike):
        return read_file(Path(os.fspath(source)))
    raise MsprobeException(
        MsprobeException.INVALID_PARAM_ERROR,
        f"config_path: got {type(source).__name__}; give the path of a .json or .yaml file, a dict, or nothing",
    )


def label_of(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> str:
    """Return the name of ``source`` in messages."""
    if source is None:
        return DEFAULTS
    return UNNAMED if isinstance(source, Mapping) else _label(Path(os.fspath(source)))


def read_file(path: Path, least: str = _LEAST) -> Written:
    """Read one file by its suffix. Raises as ``read_source`` does.

    Args:
        path: a .json or .yaml file.
        least: the smallest content of such a file, for messages.
    """
    text = _text_of(path)
    label = _label(path)
    remarks: list[str] = []
    if not text.strip():
        raise ConfigTextError([Problem("", ABSENT, f"the file is empty; write at least {least}")], label)
    if path.suffix.lower() in _JSON_SUFFIXES:
        data = _parsed_json(text, label, remarks)
    else:
        data = _parsed_yaml(text, label)
    return replace(_checked_keys(data, label, least), remarks=tuple(remarks))


def _text_of(path: Path) -> str:
    label, suffixes = _label(path), sorted(_JSON_SUFFIXES | _YAML_SUFFIXES)
    try:
        if not path.exists():
            raise FileCheckException(3, f"{label}: there is no such config file (working directory: {os.getcwd()})")
        if not path.is_file():
            raise FileCheckException(0, f"{label}: is not a file; give the path of a config file")
        if path.suffix.lower() not in suffixes:
            raise FileCheckException(0, f"{label}: the name must end in {', '.join(suffixes)}")
        if path.stat().st_size > _MAX_BYTES:
            raise FileCheckException(5, f"{label}: more than 10 MB; this is not a configuration")
        return path.read_text(encoding="utf-8-sig")
    except PermissionError as error:
        raise FileCheckException(1, f"{label}: this user may not read it; check its permissions") from error
    except UnicodeDecodeError as error:
        problem = Problem("", ABSENT, f"byte {error.start} is not UTF-8; save the file as UTF-8")
        raise ConfigTextError([problem], label) from error
    except (OSError, ValueError) as error:  # too long a name, a NUL in the name, an I/O fault
        raise FileCheckException(3, f"{label}: cannot be read: {error}") from error


def _label(path: Path) -> str:
    """Return the path for messages, with control characters escaped."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _parsed_json(text: str, label: str, remarks: list[str]) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = sorted({name for name in names if names.count(name) > 1})
            remarks.extend(f'{label}: the key "{name}" stands there twice; the last one counts' for name in repeated)
        return built

    try:
        return json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        expected = f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise ConfigTextError([Problem("", ABSENT, expected)], label) from error
    except (RecursionError, ValueError) as error:
        raise ConfigTextError([Problem("", ABSENT, f"not usable as JSON: {error}")], label) from error


def _parsed_yaml(text: str, label: str) -> Any:
    import yaml  # only files in YAML pay for it

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigTextError([Problem("", ABSENT, f"not valid YAML{where}: {error.problem}")], label) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigTextError([Problem("", ABSENT, f"not usable as YAML: {reason}")], label) from error


def _checked_keys(data: Any, label: str, least: str) -> Written:
    if not isinstance(data, dict):
        raise ConfigError([Problem("", data, f"the top level must be an object {{ }}, such as {least}")], label)
    wrong_keys = [key for key in data if not isinstance(key, str)]
    if wrong_keys:
        raise ConfigError([Problem("", key, "a key must be a text in quotes") for key in wrong_keys], label)
    return Written(label, data)
