"""Normalize the keys of a raw configuration for the models, with one warning for each key that has no effect.

Older names become the present ones, null or an empty text that mean "not given" are removed, and unknown keys are
reported with the nearest known key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.config.fields import ConfigModel
from msprobe.core.config.models import TASKS, DumpConfig, LoadConfig
from msprobe.core.config.problems import ADVISED_KEYS, nearest
from msprobe.core.config.sections import Section, SliceItem
from msprobe.core.config.when_to_record import RingSettings, SampleSettings

TASK_ALIASES: dict[str, str] = {alias: name for name, spec in TASKS.items() for alias in spec.aliases}
SECTIONS: dict[str, type[Section]] = {name: spec.section for name, spec in TASKS.items()}
COMMON_KEYS = frozenset(DumpConfig.model_fields) - frozenset(SECTIONS)
# Keys for editors, and remarks of users: they have no meaning here and need no warning.
_REMARK_STARTS = ("$", "_", "//", "#")
# For these keys null means "not given"; for the others it is a mistake that is reported.
NULL_IS_DEFAULT = frozenset({
    "task",
    "level",
    "dump_path",
    "rank",
    "step",
    "dump_enable",
    "custom_op_namespaces",
    "custom_apis",
    "load",
    "perturb",
    "disk_budget",
    "time_budget",
})
EMPTY_IS_DEFAULT = frozenset({"task", "level"})
_NESTED: dict[str, type[ConfigModel]] = {"ring": RingSettings, "sample": SampleSettings}
"""The keys of sections that are objects with keys of their own."""


@dataclass(slots=True)
class NormalizedKeys:
    """Keys for the models, and the warnings about the others."""

    raw: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


def normalize(raw: Mapping[str, Any]) -> NormalizedKeys:
    """Apply aliases, remove keys that mean "not given", and drop and report what has no effect. Never raises."""
    result = NormalizedKeys({})
    for key in sorted(raw, key=TASK_ALIASES.__contains__):  # older names last: the present one wins
        _add(key, raw[key], result)
    if "task" in result.raw:
        result.raw["task"] = _renamed(result.raw["task"])
    for name in SECTIONS.keys() & result.raw.keys():
        if isinstance(result.raw[name], Mapping):
            result.raw[name] = _normalize_section(name, result.raw[name], result.warnings)
    if isinstance(result.raw.get("load"), Mapping):
        result.raw["load"] = _known_keys("load", LoadConfig, result.raw["load"], result.warnings)
    return result


def section_keys(name: str) -> frozenset[str]:
    """Return the keys, as written in a file, that have an effect in this section."""
    return _written_keys(SECTIONS[name]) - SECTIONS[name].inert


def _renamed(task: Any) -> Any:
    return TASK_ALIASES.get(task, task) if isinstance(task, str) else task


def _add(key: str, value: Any, result: NormalizedKeys) -> None:
    """Add one top-level key to the result, or a warning when it has no effect."""
    if key in TASK_ALIASES:
        _add_older_section(key, value, result)
    elif key in SECTIONS:
        result.raw[key] = value
    elif key not in COMMON_KEYS:
        _unknown(key, "", COMMON_KEYS | SECTIONS.keys(), result.warnings)
    elif key == "risk_level" and (value is None or value == ""):
        result.raw[key] = "ALL"
    elif not (value is None and key in NULL_IS_DEFAULT) and not (value == "" and key in EMPTY_IS_DEFAULT):
        result.raw[key] = value


def _add_older_section(key: str, value: Any, result: NormalizedKeys) -> None:
    new = TASK_ALIASES[key]
    if new in result.raw:
        result.warnings.append(f"{key}: has no effect, because the newer spelling {new} is there too")
    else:
        result.raw[new] = value


def _normalize_section(name: str, section: Mapping[Any, Any], warnings: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    allowed = section_keys(name)
    for key, value in section.items():
        if key in allowed:
            if value is not None:
                kept[key] = value
            if key == "slice" and isinstance(value, list | tuple):
                _check_slices(name, value, warnings)
            if key in _NESTED and isinstance(value, Mapping):
                kept[key] = _known_keys(f"{name}.{key}", _NESTED[key], value, warnings)
        elif key in SECTIONS[name].inert:
            _inert(key, value, name, warnings)
        else:
            _unknown(key, name, allowed, warnings)
    return kept


def _check_slices(section: str, slices: Iterable[Any], warnings: list[str]) -> None:
    allowed = _written_keys(SliceItem)
    for index, item in enumerate(slices):
        for key in item.keys() - allowed if isinstance(item, Mapping) else ():
            _unknown(key, f"{section}.slice[{index}]", allowed, warnings)


def _inert(key: str, value: Any, name: str, warnings: list[str]) -> None:
    if value:
        others = sorted(other for other in SECTIONS if key in section_keys(other))
        warnings.append(f"{name}.{key}: has no effect in this section; it belongs to {' and '.join(others)}")


def _known_keys(where: str, model: type[ConfigModel], value: Mapping[Any, Any], warnings: list[str]) -> dict[str, Any]:
    """Return what an object at ``where`` says under the keys of its model; null means "not given"."""
    allowed = _written_keys(model)
    for key in value.keys() - allowed:
        _unknown(key, where, allowed, warnings)
    return {key: each for key, each in value.items() if key in allowed and each is not None}


def _unknown(key: Any, section: str, allowed: Iterable[str], warnings: list[str]) -> None:
    if isinstance(key, str) and key.startswith(_REMARK_STARTS):
        return
    choices = sorted(allowed)
    where = f"{section}." if section else ""
    if key in ADVISED_KEYS:
        warnings.append(f"{where}{key}: has no effect; {ADVISED_KEYS[key]}")
        return
    close = nearest(key, choices)
    hint = f'did you mean "{close}"?' if close else f"known keys: {', '.join(choices)}"
    name = str(key) if str(key).isprintable() else repr(key)
    warnings.append(f"{where}{name}: unknown key, it has no effect; {hint}")


def _written_keys(model: type[ConfigModel]) -> frozenset[str]:
    return frozenset(info.alias or name for name, info in model.model_fields.items())
