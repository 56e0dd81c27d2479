"""Collects hyperparameters: of shell scripts, YAML and JSON files, the command line, the model and loaded libraries.

Each source is one table of dotted names and plain values. Values of names that are secrets are hidden.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError, error_text
from msprobe.core.repeated_keys import parsed
from msprobe.core.yaml_file import load_yaml
from msprobe.setup_check.collection.environment import HIDDEN, is_secret, without_credentials
from msprobe.setup_check.collection.shell_script import arguments_of, read_script

COMMAND_LINE = "command line"
_LARGEST_FILE = 16 << 20
_DEEPEST = 50
_SCRIPTS = {".sh", ".bash"}
_PLAIN = (str, int, float, bool, type(None))


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings that a file holds: a shell script, YAML or JSON.

    Raises:
        ReadError: the file is missing, too large, of another kind, or damaged.
    """
    text = _read(path)
    suffix = path.suffix.lower()
    if suffix in _SCRIPTS:
        return _safe(read_script(text).arguments)
    if suffix not in {".yaml", ".yml", ".json"}:
        raise ReadError(f"{path}: no set-up file; give a shell script (.sh), a .yaml or a .json")
    try:
        value = parsed(text) if suffix == ".json" else load_yaml(text)
        if not isinstance(value, Mapping):
            raise ReadError(f"{path}: holds no table of names and values")
        return flat_settings(value)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path}: not readable ({' '.join(error_text(error).split())})") from error


def exported_variables(path: Path) -> dict[str, str]:
    """Return the variables that a shell script gives to the programs that it starts; none of another file.

    Raises:
        ReadError: the file is missing or too large.
    """
    return read_script(_read(path)).exported if path.suffix.lower() in _SCRIPTS else {}


def command_line_settings(words: list[str] | None = None) -> dict[str, Any]:
    """Return the options with which this program was started."""
    return _safe(arguments_of(sys.argv[1:] if words is None else words))


def library_settings() -> dict[str, dict[str, Any]]:
    """Return what loaded libraries know of the training: Megatron's arguments, Hydra's job. Nothing is imported."""
    found: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(Exception):  # code of Hydra, and its files
        if job := _hydra_job():
            found["hydra"] = job
    for module in ("megatron.training.global_vars", "megatron.training", "megatron"):
        get_args = getattr(sys.modules.get(module), "get_args", None)
        if get_args is None:
            continue
        try:
            found["megatron"] = flat_settings(vars(get_args()))
        except Exception:  # noqa: BLE001 - code of the user's library: not initialised, or another version
            continue
        break
    return found


def _hydra_job() -> dict[str, Any]:
    """Return the configuration that Hydra wrote for this job; its overrides where it writes none."""
    module = sys.modules.get("hydra.core.hydra_config")
    if module is None or not module.HydraConfig.initialized():
        return {}
    job = module.HydraConfig.get()
    if job.output_subdir is not None:
        written = Path(job.runtime.output_dir) / job.output_subdir / "config.yaml"
        if written.is_file():
            return read_settings(written)
    return command_line_settings(list(job.overrides.task))


def model_settings(model: Any) -> dict[str, Any]:
    """Return the configuration that a model carries, as those of transformers and Megatron do; empty without one."""
    with contextlib.suppress(Exception):  # code of the user's model
        while getattr(model, "config", None) is None and getattr(model, "module", None) is not None:
            model = model.module  # wrapped for parallel training
        config = getattr(model, "config", None)
        if isinstance(config, Mapping) or dataclasses.is_dataclass(config) or hasattr(config, "to_dict"):
            return object_settings(config)
    return {}


def object_settings(settings: Any) -> dict[str, Any]:
    """Return the settings of an object that holds arguments: of transformers, Hydra, argparse, a dataclass, a dict."""
    if type(settings).__module__.startswith("omegaconf"):
        container = sys.modules["omegaconf"].OmegaConf.to_container
        return flat_settings(container(settings, resolve=True))
    if isinstance(settings, Mapping):
        return flat_settings(settings)
    to_dict = getattr(settings, "to_dict", None)
    return flat_settings(to_dict() if callable(to_dict) else vars(settings))


def flat_settings(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """Return nested tables as one of dotted names; the values of lists stay lists, other objects become text."""
    return _safe(dict(_leaves(settings, (), 0)))


def _leaves(table: Mapping[Any, Any], keys: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        path = (*keys, str(key))
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield from _leaves(value, path, depth + 1)
        else:
            yield ".".join(path), plain_setting(value)


def plain_setting(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON holds it: numbers, texts and lists of them stay, others and what is deeper become text."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Iterable) and isinstance(value, (list, tuple, set, frozenset)) and depth < _DEEPEST:
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain_setting(item, depth + 1) for item in items]
    return str(value)


def _safe(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {_text(name): HIDDEN if _hides(name, value) else _without(value) for name, value in settings.items()}


def _text(text: str) -> str:
    """Return a text without half of a surrogate pair, which JSON and YAML can hold and no file can."""
    return text.encode("utf-8", "backslashreplace").decode()


def _hides(name: str, value: Any) -> bool:
    return value not in (None, "", True, False) and is_secret(name.rpartition(".")[2])


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(_text(value))
    return [_without(item) for item in value] if isinstance(value, list) else value


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ReadError(f"{path}: larger than {_LARGEST_FILE >> 20} MB; no set-up file")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error}); give a .sh, .yaml or .json") from error
