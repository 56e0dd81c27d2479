"""Generate the JSON Schema of config.json from the models.

The models describe a configuration after its keys were normalized; the schema describes the file. So the schema also
allows what is normalized away: the older task name, and null or an empty text where they mean "not given".
"""

from typing import Any

from msprobe.core.config.models import DumpConfig
from msprobe.core.config.normalize import EMPTY_IS_DEFAULT, NULL_IS_DEFAULT, SECTIONS, TASK_ALIASES, section_keys

_NULL = {"type": "null"}


def config_schema() -> dict[str, Any]:
    """Return the schema of the file as a dict."""
    schema = DumpConfig.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for name, model in SECTIONS.items():
        _as_written(definitions[model.__name__], section_keys(name))
    _all_nullable(definitions["LoadConfig"], {"step", "rank", "dump_after_load"})
    _as_written_top(schema)
    return schema


def _as_written(section: dict[str, Any], keys: frozenset[str]) -> None:
    section["properties"] = {key: value for key, value in section["properties"].items() if key in keys}
    _all_nullable(section, set(keys))


def _as_written_top(schema: dict[str, Any]) -> None:
    properties = schema["properties"]
    for name in SECTIONS:
        properties[name].pop("default", None)
    properties["task"]["enum"] += sorted(TASK_ALIASES)
    for old, new in TASK_ALIASES.items():
        properties[old] = {**properties[new], "deprecated": True, "description": f"Older name of {new}."}
    for key in EMPTY_IS_DEFAULT | {"risk_level"}:
        properties[key]["enum"].append("")
    _all_nullable(schema, NULL_IS_DEFAULT | {"risk_level"})
    properties["dump_path"].pop("default")
    schema["anyOf"] = [{"required": ["dump_path"]}, {"required": ["load"]}]


def _all_nullable(owner: dict[str, Any], keys: set[str] | frozenset[str]) -> None:
    for key in keys:
        owner["properties"][key] = _nullable(owner["properties"][key])


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if _NULL in schema.get("anyOf", ()):
        return schema
    outer: dict[str, Any] = {key: schema[key] for key in ("description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in outer}
    return {"anyOf": [inner, _NULL], **outer}
