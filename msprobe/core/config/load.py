"""Load one valid ``DumpConfig`` from a file, a dict or nothing, plus constructor arguments; or list all its problems.

``load_config`` raises and logs, ``check_config`` returns what is wrong. Both read the source, put the arguments over
it, normalize names of keys, check single fields, check rules between fields, and replace settings without effect.

The last two parts of this file read a source (only its form is checked there: the file exists, can be read and holds an
object) and say in errors whether a wrong value comes from a file or from an argument.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from msprobe.core.config.models import DumpConfig, TaskName
from msprobe.core.config.normalize import COMMON_KEYS, SECTIONS, normalize
from msprobe.core.config.problems import problems_of
from msprobe.core.config.rules import broken_rules, replace_unused
from msprobe.core.errors import (
    ABSENT,
    ConfigError,
    ConfigTextError,
    FileCheckException,
    MsprobeException,
    Problem,
    config_error,
)
from msprobe.core.log import logger
from msprobe.core.yaml_file import YamlError, load_yaml

UNNAMED = "config"
"""The name in messages of a configuration that is no file."""
DEFAULTS = "default configuration"
_LEAST = '{"dump_path": "./dump"}'
PACKAGED_DEFAULT = Path(__file__).parents[2] / "config.json"
_JSON_SUFFIXES = {".json"}
_YAML_SUFFIXES = {".yaml", ".yml"}
_MAX_BYTES = 10 * 1024 * 1024
_WRITING_SECONDS = 0.5
_PAUSE_SECONDS = 0.02

ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """The result of checking a configuration; ``config`` is None exactly when there are problems."""

    source: str
    config: DumpConfig | None
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def load_config(source: ConfigSource, **overrides: Any) -> DumpConfig:
    """Load the configuration. Warnings go to the log.

    A file that was written to a moment ago and cannot be parsed is read again for half a second: the workers of a
    server write one file all at once.

    Args:
        source: a .json or .yaml file, a dict, or None for the packaged defaults.
        overrides: common fields (``task``, ``dump_path``, ``level``, ``step``, ``rank``, ...) that replace those of the
            file; None means that the argument was not given.

    Raises:
        ConfigError: something is wrong; the error lists every problem. It is a ScopeConfigError when only the scope is
            wrong.
        FileCheckException: the file cannot be used.
        TypeError: an override is no common field.
    """
    while True:
        try:
            report = check_config(source, **overrides)
            break
        except ConfigTextError:
            if not _being_written(source):
                raise
            time.sleep(_PAUSE_SECONDS)
    for warning in report.warnings:
        logger.warning("%s: %s", report.source, warning)
    if report.config is None:
        raise config_error(report.problems, report.source)
    return report.config


def _being_written(source: ConfigSource) -> bool:
    if source is None or isinstance(source, Mapping):
        return False
    try:
        return 0 <= time.time() - os.stat(source).st_mtime < _WRITING_SECONDS
    except OSError:
        return False


def check_config(source: ConfigSource, **overrides: Any) -> ConfigReport:
    """Check a configuration as ``load_config`` does, and return what is wrong instead of raising and logging it.

    Raises:
        FileCheckException: the file cannot be used.
        ConfigError: the text is neither JSON nor YAML.
    """
    unknown = overrides.keys() - COMMON_KEYS
    if unknown:
        raise TypeError(f"no common configuration field: {', '.join(sorted(unknown))}")
    written = read_source(source)
    arguments = {key: value for key, value in overrides.items() if value is not None}
    normalized = normalize({**written.raw, **arguments})
    raw, unused_warnings = _without_broken_unused_sections(normalized.raw)
    config, problems, failed = _validated(raw)
    # The rules check what will be used: for task structure, level debug has become mix by then.
    config, replaced_warnings = replace_unused(config, raw.keys())
    problems += broken_rules(config, failed)
    problems = with_arguments(problems, arguments)
    warnings = (*written.remarks, *normalized.warnings, *unused_warnings)
    if problems:  # warnings of replace_unused would be about the defaults that replace faulty values
        return ConfigReport(written.label, None, tuple(problems), warnings)
    return ConfigReport(written.label, config, (), (*warnings, *replaced_warnings))


def _without_broken_unused_sections(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Remove sections that the task does not use and that are wrong: that is worth a warning but not an error."""
    task = raw.get("task", "statistics")
    if task not in get_args(TaskName):
        return raw, []
    kept = dict(raw)
    warnings: list[str] = []
    for name in SECTIONS.keys() & raw.keys() - {task}:
        _, problems, _ = _validated({name: raw[name]})
        if problems:
            del kept[name]
            warnings.extend(f"{problem} (ignored: task {task} does not use this section)" for problem in problems)
    return kept, warnings


def _validated(raw: Mapping[str, Any]) -> tuple[DumpConfig, list[Problem], set[str]]:
    """Return the configuration with each faulty key at its default, the problems, and the paths of these keys."""
    try:
        return DumpConfig.model_validate(raw), [], set()
    except ValidationError as error:
        paths = [tuple(item["loc"]) for item in error.errors(include_url=False)]
        kept, failed = _without(raw, paths)
        return DumpConfig.model_validate(kept), problems_of(error), failed


def _without(raw: Mapping[str, Any], paths: list[tuple[int | str, ...]]) -> tuple[dict[str, Any], set[str]]:
    """Return ``raw`` without the keys at ``paths``, and these keys (``level``, ``statistics.scope``)."""
    kept, failed = dict(raw), set[str]()
    for path in paths:
        key = str(path[0])
        if key in SECTIONS and len(path) > 1:
            inner = str(path[1])
            kept[key] = {name: value for name, value in kept[key].items() if name != inner}
            failed.add(f"{key}.{inner}")
        else:
            kept.pop(key, None)
            failed.add(key)
    return kept, failed


# ---- reading a source


@dataclass(frozen=True, slots=True)
class RawConfig:
    """A configuration as it is written: its name in messages, its keys, and remarks about its form."""

    label: str
    raw: dict[str, Any]
    remarks: tuple[str, ...] = ()


def read_source(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> RawConfig:
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


def read_file(path: Path, least: str = _LEAST) -> RawConfig:
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
            remarks.extend(f'the key "{name}" stands there twice; the last one counts' for name in repeated)
        return built

    try:
        return json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        expected = f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise ConfigTextError([Problem("", ABSENT, expected)], label) from error
    except (RecursionError, ValueError) as error:
        raise ConfigTextError([Problem("", ABSENT, f"not usable as JSON: {error}")], label) from error


def _parsed_yaml(text: str, label: str) -> Any:
    try:
        return load_yaml(text)
    except YamlError as error:
        where = f" at line {error.line}, column {error.column}" if error.line else ""
        raise ConfigTextError([Problem("", ABSENT, f"not valid YAML{where}: {error.problem}")], label) from error


def _checked_keys(data: Any, label: str, least: str) -> RawConfig:
    if not isinstance(data, dict):
        raise ConfigError([Problem("", data, f"the top level must be an object {{ }}, such as {least}")], label)
    wrong_keys = [key for key in data if not isinstance(key, str)]
    if wrong_keys:
        raise ConfigError([Problem("", key, "a key must be a text in quotes") for key in wrong_keys], label)
    return RawConfig(label, data)


# ---- where a wrong value comes from


def with_arguments(problems: Iterable[Problem], arguments: Collection[str]) -> list[Problem]:
    """Return the problems; those about a key in ``arguments`` are marked as wrong arguments."""
    return [replace(problem, argument=problem.path.split("[")[0] in arguments) for problem in problems]


@contextlib.contextmanager
def attributed(source: Any, arguments: Collection[str]) -> Iterator[None]:
    """Add ``source`` to a ConfigError that is raised inside, as ``load_config`` does.

    An error that names a file already is left as it is.

    Args:
        source: the configuration, as it was passed to the debugger.
        arguments: the keys that were passed as arguments.
    """
    try:
        yield
    except ConfigError as error:
        if error.source != UNNAMED:
            raise
        raise type(error)(with_arguments(error.problems, arguments), label_of(source)) from None
