"""The thresholds of the search for odd answers, and the files of the published tool that hold them.

Three things can be given to ``ILLDetector``, each of which may be left out: thresholds (YAML), the models with their
special tokens (JSON), and a folder with what is known of their tokens: a ``tokenizer.json`` or a map from token to
category, in a file named after the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from msprobe.core.errors import ConfigError, Problem, ReadError
from msprobe.core.repeated_keys import parsed
from msprobe.core.yaml_file import load_yaml

_LARGEST = 512 * 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RareSettings(_Section):
    """When a token is one that nobody expected."""

    explogp_sum_thresh: float = Field(0.4, ge=0, le=1, description="Sum of the probabilities of the candidates.")
    category_thresh: int = Field(2, ge=1, description="Different categories among the candidates.")
    top1_logp_thresh: float = Field(-6, le=0, description="Log-probability of the most probable token.")


class GarbledSettings(_Section):
    """When a window is garbled."""

    top1_logp_thresh: float = Field(-5, le=0, description="Log-probability of the most probable token.")
    window_ratio: float = Field(0.2, gt=0, le=1, description="Share of a window that is odd.")
    window_thresh: int = Field(2, ge=1, description="Windows in a row, in answers that have so many.")


class TrajectorySettings(_Section):
    """Sequences of n words."""

    n: int = Field(3, ge=1, le=16)
    distinct_n_thresh: float = Field(0.2, ge=0, le=1, description="Share of different sequences.")
    logp_thresh: float = Field(-0.2, le=0, description="Read; values decide here.")


class AcfSettings(_Section):
    """Autocorrelation of log-probabilities, which is not looked at here: the tokens themselves say more."""

    acf_threshold: float = Field(0.65, ge=-1, le=1)
    logp_thresh: float = Field(-0.2, le=0)


class RepetitionFile(_Section):
    """The section ``repetition``."""

    trajectory: TrajectorySettings = TrajectorySettings()
    acf: AcfSettings = AcfSettings()
    single_window_thresh: int = Field(14, ge=1)
    multi_window_thresh: int = Field(2, ge=1)


RepetitionSettings = TrajectorySettings


class Settings(_Section):
    """The file of thresholds; the names are those of the published tool."""

    window_size: int = Field(128, ge=16, le=65536, description="Tokens of a window.")
    stride: int = Field(64, ge=1, le=65536, description="Tokens from one window to the next.")
    rare_character: RareSettings = RareSettings()
    garbled: GarbledSettings = GarbledSettings()
    repetition: RepetitionFile = RepetitionFile()


def read_settings(path: str | Path | None) -> Settings:
    """Return the thresholds of a file, and the default ones without a file.

    Raises:
        ConfigError: something in the file is wrong; every fault is named.
        ReadError: the file cannot be read.
    """
    if not path:
        return Settings()
    given = read_document(Path(path))
    try:
        return Settings.model_validate({} if given is None else given)
    except ValidationError as error:
        problems = [
            Problem(".".join(map(str, each["loc"])) or str(path), each["input"], each["msg"]) for each in error.errors()
        ]
        raise ConfigError(problems, source=str(path)) from error


def read_document(path: Path) -> Any:
    """Return what a YAML or JSON file holds.

    Raises:
        ReadError: it is no such file, or larger than any of them.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ReadError(f"{path}: larger than {_LARGEST >> 20} MiB; give a configuration or a tokenizer.json")
        text = path.read_text("utf-8")
        return parsed(text) if path.suffix == ".json" else load_yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise ReadError(f"{path}: cannot be read: {reason}") from error


def model_key(name: Any) -> str:
    """Return the name of a model as files have it: small letters, and ``-`` for ``_`` and ``.``."""
    return re.sub(r"[-_.]+", "-", str(name).strip().lower())


def read_models(path: str | Path | None) -> dict[str, frozenset[int]]:
    """Return the special tokens (begin and end) of each model of a file; empty without one.

    Raises:
        ReadError: it holds no models.
    """
    if not path:
        return {}
    given = read_document(Path(path))
    if not isinstance(given, Mapping):
        raise ReadError(f"{path}: is to map the name of a model to its special tokens, such as {{'qwen3': {{...}}}}")
    return {model_key(name): frozenset(_numbers(value)) for name, value in given.items()}


def _numbers(value: Any) -> list[int]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [number for item in items for number in _numbers(item)]
