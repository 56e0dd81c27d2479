"""The committed JSON Schema is the one of the models, and both accept what the documentation shows."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from msprobe.core.config import check_config
from msprobe.core.config.json_schema import config_schema
from msprobe.core.config.load import PACKAGED_DEFAULT
from msprobe.core.json_schema import schema_text

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "schemas" / "config.schema.json"
COMMON = {"dump_path": "/home/data_dump", "rank": [], "step": []}
SELECTION = {"scope": [], "list": [], "data_mode": ["all"]}

DOCUMENTED: dict[str, dict[str, Any]] = {
    "statistics": {
        "task": "statistics",
        **COMMON,
        "level": "L1",
        "async_dump": False,
        "extra_info": True,
        "statistics": {**SELECTION, "tensor_list": [], "summary_mode": "statistics"},
    },
    "tensor": {
        "task": "tensor",
        **COMMON,
        "level": "L1",
        "async_dump": False,
        "tensor": {**SELECTION, "bench_path": "/home/bench_data_dump", "summary_mode": "md5", "diff_nums": 5},
    },
    "acc_check": {
        "task": "acc_check",
        **COMMON,
        "level": "L1",
        "acc_check": {"white_list": [], "black_list": [], "error_data_path": "./"},
    },
    "run_ut": {
        "task": "run_ut",
        **COMMON,
        "level": "L1",
        "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
    },
    "overflow_check": {"task": "overflow_check", **COMMON, "level": "L2", "overflow_check": {"check_mode": "all"}},
    "structure": {"task": "structure", **COMMON, "level": "mix"},
    "exception_dump": {"task": "exception_dump", **COMMON, "level": "L2", "exception_dump": SELECTION},
    "dump_enable": {
        "task": "statistics",
        **COMMON,
        "level": "L1",
        "dump_enable": False,
        "statistics": {"summary_mode": "statistics"},
    },
    "ranges": {**COMMON, "rank": [1, "4-6"], "step": [0, 1, 2, "4-6"]},
    "mindspore graph": {
        "task": "statistics",
        **COMMON,
        "level": "L2",
        "statistics": {"list": ["name-regex(Default/.+)"], "summary_mode": ["max", "min"], "device": "device"},
    },
    "scope modules": {
        **COMMON,
        "level": "L0",
        "statistics": {"scope": ["Cell.conv1.Conv2d.forward.0", "Cell.fc2.Dense.backward.0"]},
    },
    "list module": {
        **COMMON,
        "level": "mix",
        "statistics": {"list": ["Module.module.language_model.encoder.layers.0.mlp.ParallelMlp.forward.0"]},
    },
    "empty means default": {**COMMON, "task": "", "level": None, "risk_level": None, "statistics": {"scope": None}},
    "load": {"load": {"path": "golden", "modules": ["Module.a.A.forward.0"], "step": ["0-1"]}},
}


def committed() -> Any:
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """Return what checks a configuration; ``jsonschema.validate`` would check the schema again each time."""
    return jsonschema.Draft202012Validator(committed())


def test_the_committed_schema_is_fresh() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == schema_text(config_schema())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(committed())


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_documented_examples_fit_schema_and_model(name: str) -> None:
    validator().validate(DOCUMENTED[name])
    report = check_config(DOCUMENTED[name])
    assert (report.problems, report.warnings) == ((), ())


def test_the_packaged_default_fits_schema_and_model() -> None:
    validator().validate(json.loads(PACKAGED_DEFAULT.read_text(encoding="utf-8")))
    assert check_config(PACKAGED_DEFAULT).warnings == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {**COMMON, "task": "tensors"},
        {**COMMON, "step": ["a"]},
        {**COMMON, "step": [-1]},
        {**COMMON, "async_dump": "true"},
        {**COMMON, "precision": None},
        {**COMMON, "statistics": []},
        {**COMMON, "statistics": {"data_mode": ["foward"]}},
        {**COMMON, "statistics": {"summary_mode": []}},
        {**COMMON, "task": "tensor", "tensor": {"diff_nums": 0}},
        {**COMMON, "load": {"modules": ["Module.a.A.forward.0"]}},
    ],
)
def test_schema_and_model_refuse_the_same(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(wrong)
    assert check_config(wrong).problems


def test_every_field_is_described() -> None:
    schema = committed()
    owners = [schema, *schema["$defs"].values()]
    bare = [
        key
        for owner in owners
        for key, value in owner.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert bare == []


def test_the_script_refuses_a_word_that_it_does_not_know() -> None:
    """``tests/rules/test_documents.py`` runs it with ``--check``."""
    script = [sys.executable, str(ROOT / "scripts" / "schema"), "--chek"]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 2


def test_defaults_are_what_their_own_schema_allows() -> None:
    """An editor fills in the default: it must be a value that may be written."""
    schema = committed()
    for owner in [schema, *(part for part in schema["$defs"].values() if "properties" in part)]:
        defaults = {key: part["default"] for key, part in owner["properties"].items() if "default" in part}
        defaulted = {key: owner["properties"][key] for key in defaults}
        jsonschema.Draft202012Validator({"properties": defaulted, "$defs": schema["$defs"]}).validate(defaults)
