"""Reads a configuration of the monitor into its model: unknown keys are warnings, wrong values are errors.

The errors are of the classes that the published monitor raises (TypeError, ValueError) and of ``ConfigError``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from msprobe.core.config.fields import ConfigModel
from msprobe.core.config.load import read_source
from msprobe.core.config.problems import nearest, problems_of
from msprobe.core.errors import ConfigError, Problem, json_text
from msprobe.core.log import logger

M = TypeVar("M", bound=ConfigModel)
Source = str | os.PathLike[str] | Mapping[str, Any]
_OF_VALUE = ("must be at least", "must be at most", "allowed:")


class MonitorTypeError(ConfigError, TypeError):
    """A setting of the monitor has the wrong type."""


class MonitorValueError(ConfigError, ValueError):
    """A setting of the monitor has a value that is not allowed."""


def read_settings(model: type[M], source: Source, lenient: frozenset[str] = frozenset()) -> M:
    """Return the settings of a file or a dict.

    Args:
        model: the model of the configuration.
        source: a ``.json`` or ``.yaml`` file, or a dict.
        lenient: settings whose wrong value is a warning, and the default is used.

    Raises:
        MonitorTypeError: a setting has the wrong type.
        MonitorValueError: a setting has a value that is not allowed.
        FileCheckException: the file cannot be used.
        ConfigError: the text is no JSON or YAML.
    """
    written = read_source(source)
    raw = dict(written.raw)
    for warning in unknown_keys(model, raw):
        logger.warning("%s: %s", written.label, warning)
    while True:
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            problems = problems_of(error)
        dropped = [problem for problem in problems if _top(problem.path) in lenient and _top(problem.path) in raw]
        if not dropped:
            raise _error(problems, written.label)
        for problem in dropped:
            logger.warning("%s: %s; the default is used", written.label, problem)
            raw.pop(_top(problem.path), None)


def unknown_keys(model: type[ConfigModel], raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each key that the model does not have."""
    known = [field.alias or name for name, field in model.model_fields.items()]
    for key in raw:
        if key not in known:
            close = nearest(key, known)
            hint = f"; did you mean {close}?" if close else ""
            yield f"{json_text(key)} is no setting of the monitor and has no effect{hint}"


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _error(problems: list[Problem], source: str) -> ConfigError:
    of_value = all(problem.expected.startswith(_OF_VALUE) for problem in problems)
    return (MonitorValueError if of_value else MonitorTypeError)(problems, source)
