"""From a file, a dict or nothing, plus constructor arguments, to one valid ``DumpConfig``, or to all its problems.

The order: read, put arguments over the file, tidy names, check fields, check rules between fields, settle.
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
    """Everything that can be said about a configuration; ``config`` is None exactly when there are problems."""

    source: str
    config: DumpConfig | None
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def load_config(source: ConfigSource, **overrides: Any) -> DumpConfig:
    """The configuration from a .json/.yaml file, a dict, or None (the packaged defaults).

    ``overrides`` are common fields (``task``, ``dump_path``, ``level``, ``step``, ``rank``, ...) that beat the file;
    None means not given. Warnings go to the log. Raises ConfigError (ScopeConfigError when only the scope is wrong)
    with all problems, FileCheckException when the file cannot be used, TypeError for an override that is not a
    common field.

    A file of which only the beginning is there, written to a moment ago, is given the time to be finished:
    the workers of a server write one file all at once.
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
    """As ``load_config``, but what is wrong is returned instead of raised and logged.

    Still raises when there is nothing to look at: FileCheckException, ConfigError for text that is not JSON or YAML.
    """
    unknown = overrides.keys() - COMMON_KEYS
    if unknown:
        raise TypeError(f"no common configuration field: {', '.join(sorted(unknown))}")
    written = read_source(source)
    given = {key: value for key, value in overrides.items() if value is not None}
    tidied = tidy({**written.raw, **given})
    raw, idle_warnings = _without_broken_idle_sections(tidied.raw)
    config, problems, failed = _validated(raw)
    # Rules judge what will be used: level debug with task structure is mix by then.
    config, settle_warnings = settled(config, raw.keys())
    problems += broken_rules(config, failed)
    problems = with_arguments(problems, given)
    warnings = (*written.remarks, *tidied.warnings, *idle_warnings)
    if problems:  # what settled says would be about defaults that stand in for faulty values
        return ConfigReport(written.label, None, tuple(problems), warnings)
    return ConfigReport(written.label, config, (), (*warnings, *settle_warnings))


def _without_broken_idle_sections(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A mistake in a section that the task does not use is worth a warning, but must not stop a training."""
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
    """The configuration with every faulty key at its default, the faults, and the paths of the keys left out."""
    try:
        return DumpConfig.model_validate(raw), [], set()
    except ValidationError as error:
        places = [tuple(item["loc"]) for item in error.errors(include_url=False)]
        kept, failed = _without(raw, places)
        return DumpConfig.model_validate(kept), problems_of(error), failed


def _without(raw: Mapping[str, Any], places: list[tuple[int | str, ...]]) -> tuple[dict[str, Any], set[str]]:
    kept, failed = dict(raw), set[str]()
    for place in places:
        key = str(place[0])
        if key in SECTIONS and len(place) > 1:
            inner = str(place[1])
            kept[key] = {name: value for name, value in kept[key].items() if name != inner}
            failed.add(f"{key}.{inner}")
        else:
            kept.pop(key, None)
            failed.add(key)
    return kept, failed
