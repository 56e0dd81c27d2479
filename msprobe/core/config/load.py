"""Load one valid ``DumpConfig`` from a file, a dict or nothing, plus constructor arguments; or list all its problems.

The order: read, put the arguments over the file, normalize names, check fields, check rules between fields, replace
settings that have no effect.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from msprobe.core.config.attribution import with_arguments
from msprobe.core.config.dump_config import DumpConfig, TaskName
from msprobe.core.config.problems import problems_of
from msprobe.core.config.read import read_source
from msprobe.core.config.rules import broken_rules, settled
from msprobe.core.config.tidy import COMMON_KEYS, SECTIONS, tidy
from msprobe.core.errors import ConfigTextError, Problem, config_error
from msprobe.core.log import logger

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
    tidied = tidy({**written.raw, **arguments})
    raw, unused_warnings = _without_broken_unused_sections(tidied.raw)
    config, problems, failed = _validated(raw)
    # The rules check what will be used: for task structure, level debug has become mix by then.
    config, settle_warnings = settled(config, raw.keys())
    problems += broken_rules(config, failed)
    problems = with_arguments(problems, arguments)
    warnings = (*written.remarks, *tidied.warnings, *unused_warnings)
    if problems:  # warnings of settled would be about the defaults that replace faulty values
        return ConfigReport(written.label, None, tuple(problems), warnings)
    return ConfigReport(written.label, config, (), (*warnings, *settle_warnings))


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
