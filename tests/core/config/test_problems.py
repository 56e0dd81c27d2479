"""Each documented row of what a configuration may not hold, as a user meets it: PrecisionDebugger refuses the file.

The error has the documented class and code, one line per mistake, and each line names the file, the place in it and
what to do instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import ConfigError, MsprobeException, ScopeException
from tests.core.config.rejecting_debugger import error_of

API, MODULE = "Functional.relu.0.forward", "Module.fc.Linear.forward.0"
LOAD = {"path": ".", "modules": [MODULE]}


def rows(place: str, remedy: str, *values: Any, **beside: Any) -> list[Any]:
    """One row for each bad value at ``place``: ``step``, ``tensor.list`` (the task too), ``statistics.slice[0].dim``.

    ``beside`` are further keys at the top.
    """
    key = place.split("[", 1)[0]
    section, _, inner = key.rpartition(".")
    built = []
    for value in values:
        raw = {inner: value} if not section else {section: {inner: value}}
        raw = {"load": {**LOAD, **raw["load"]}} if section == "load" else raw
        task = {"task": section} if section and section != "load" else {}
        shown = repr(value) if len(repr(value)) < 40 else f"{repr(value)[:30]}..."
        built.append(pytest.param({**task, **raw, **beside}, place, remedy, id=f"{place}={shown}"))
    return built


NUMBER, FORM = "a whole number", 'must have the form "3" or "3-5"'
RANGE, OBJECT, LIST, TEXT = "between 0 and 1000000", "must be an object { }", "must be a list [ ]", "a text in quotes"
SWITCH, COUNT, FULL = "must be true or false", "-1 (no limit) or greater than 0", "must be a full forward name like"
COMMON = [
    *rows("task", "allowed: statistics, tensor", "run_utt", 3),
    *rows("task", 'did you mean "tensor"?', "tensors", "Tensor", ["tensor"]),
    *rows("task", "pytorch collects statistics, tensor, structure", "exception_dump"),
    *rows("dump_path", TEXT, 3, ["x"], True),
    *rows("dump_path", "is required: the directory for the results", "", None),
    *rows("dump_path", "must not contain NUL", "a\0b", "a\nb"),
    *rows("dump_path", "longer than 255 bytes; use a shorter name", "a/" + "b" * 256),
    *rows("dump_path", "longer than 4096 bytes; use a shorter path", "a/" * 2100),
    *rows("rank", LIST, {"a": 1}, True),
    *rows("rank", "did you mean [3]?", 3),
    *rows("rank", 'did you mean ["3-5"]?', "3-5"),
    *rows("rank[0]", NUMBER, [1.5], [True], [None], [[1]]),
    *rows("rank[0]", RANGE, [-1], [1000001], ["0-1000001"]),
    *rows("rank[0]", FORM, ["a"], ["1-2-3"], ["a-3"], ["3-b"], ["-1"]),
    *rows("rank[0]", 'write "4-6"', ["6-4"]),
    *rows("step", LIST, {"a": 1}, False),
    *rows("step", "did you mean [3]?", 3),
    *rows("step", 'did you mean ["3"]?', "3"),
    *rows("step[0]", NUMBER, [1.5], [True], [None]),
    *rows("step[0]", RANGE, [-1], [1000001], ["1000001"]),
    *rows("step[0]", FORM, ["a"], [""], ["-"]),
    *rows("step[0]", 'write "4-6"', ["6-4"]),
    *rows("level", "allowed: L0, L1, L2, mix, debug", "L3", 1),
    *rows("level", 'did you mean "L1"?', "l1", ["L1"]),
    *rows("level", 'did you mean "mix"?', "MIX"),
    *rows("async_dump", f"{SWITCH}; did you mean true?", "true", 1, "on"),
    *rows("async_dump", SWITCH, None, []),
    *rows("extra_info", f"{SWITCH}; did you mean false?", "false", 0, "no"),
    *rows("extra_info", SWITCH, None, []),
    *rows("dump_enable", f"{SWITCH}; did you mean true?", "true", 1, "on"),
    *rows("dump_enable", SWITCH, []),
    *rows("precision", 'allowed: low, high; did you mean "high"?', "High"),
    *rows("precision", "allowed: low, high", None, 1, ""),
    *rows("risk_level", "allowed: CORE, FOCUS, ALL", "LOW", 1),
    *rows("risk_level", 'did you mean "FOCUS"?', "focus"),
    *rows("custom_op_namespaces", 'did you mean ["ns"]?', "ns"),
    *rows("custom_op_namespaces", LIST, {"a": 1}),
    *rows("custom_op_namespaces[0]", TEXT, [1]),
    *rows("custom_apis", 'an object {"package.module": ["function"]}, or the path of a YAML file', 3, ["a"], ""),
    *rows("custom_apis", "the full name of a module or class", {"a b": ["f"]}, {"": ["f"]}, {".a": ["f"]}),
    *rows("enable_dataloader", SWITCH, "x"),
    *rows("statistics", OBJECT, None, [], "x", 1),
    *rows("load", OBJECT, [], "x", 1),
]
SECTION = [
    *rows("statistics.scope", 'did you mean ["x"]?', "x"),
    *rows("statistics.scope", LIST, {"a": 1}),
    *rows("statistics.scope[1]", TEXT, ["x", 1]),
    *rows("statistics.list", 'did you mean ["relu"]?', "relu"),
    *rows("statistics.list", LIST, {"a": 1}, 3),
    *rows("statistics.list[0]", TEXT, [1]),
    *rows("statistics.list[0]", "remove it", [""], [" "]),
    *rows("statistics.list[0]", "the regular expression is not valid", ["name-regex(()"]),
    *rows("statistics.tensor_list", 'did you mean ["relu"]?', "relu"),
    *rows("statistics.tensor_list[0]", TEXT, [1]),
    *rows("statistics.tensor_list[0]", "remove it", [""]),
    *rows("statistics.data_mode", 'did you mean ["forward"]?', "forward"),
    *rows("statistics.data_mode[0]", 'did you mean "forward"?', ["forwards"]),
    *rows("statistics.data_mode[0]", "allowed: all, forward, backward, input, output", [1]),
    *rows("statistics.data_mode", 'write ["all"] or leave "all" out', ["all", "input"]),
    *rows("statistics.data_mode", "at most 4 entries", ["input"] * 5),
    *rows(
        "statistics.summary_mode",
        'allowed: statistics, md5, xor, or a list of statistics; did you mean "md5"?',
        "md4",
        "MD5",
    ),
    *rows("statistics.summary_mode", "allowed: statistics, md5, xor", 1),
    *rows("statistics.summary_mode", "calls and cells have max, min, mean and l2norm", ["md5"], ["max", "nan count"]),
    *rows("statistics.summary_mode[0]", 'did you mean "max"?', ["maxx"]),
    *rows("statistics.summary_mode", "must not be an empty list", []),
    *rows("statistics.slice", 'did you mean [{"dim": 0}]?', {"dim": 0}),
    *rows("statistics.slice", LIST, "x"),
    *rows("statistics.slice[0]", OBJECT, [1]),
    *rows("statistics.slice[0].dim", "must be at least 0", [{"dim": -1}]),
    *rows("statistics.slice[0].size", "must be at least 0", [{"size": -1}]),
    *rows("statistics.slice[0].begin", "did you mean 1?", [{"begin": "1"}]),
    *rows("statistics.slice[0].end", NUMBER, [{"end": 1.5}], [{"end": True}]),
    *rows("statistics.request_id", TEXT, 1, ["a"]),
    *rows("statistics.device", "allowed: host, device", "npu"),
    *rows("tensor.summary_mode", "allowed: statistics, md5, xor", ["max"]),
    *rows("tensor.file_format", "allowed: npy, bin", "pt"),
    *rows("tensor.diff_nums", NUMBER, "a", 1.5, True),
    *rows("tensor.diff_nums", "did you mean 3?", "3"),
    *rows("tensor.diff_nums", COUNT, 0, -5),
    *rows("tensor.bench_path", TEXT, 1, ["a"]),
    *rows("overflow_check.overflow_nums", NUMBER, "a"),
    *rows("overflow_check.overflow_nums", COUNT, 0, -5),
    *rows("diff_check.diff_nums", NUMBER, "a"),
    *rows("diff_check.diff_nums", COUNT, 0, -5),
]
INPUT_OVERRIDE = [
    *rows("load.modules", "must not be an empty list", []),
    *rows("load.modules", f'did you mean ["{MODULE}"]?', MODULE),
    *rows("load.modules[0]", TEXT, [1]),
    *rows("load.modules[0]", FULL, [API], [MODULE[:-2]], ["Module.fc.Linear.backward.0"]),
    *rows("load.modules[1]", "stands there twice; remove one", [MODULE, MODULE]),
    *rows("load.path", "must not be empty", ""),
    *rows("load.path", TEXT, 3),
    *rows("load.path", "give the dump_path of the run that recorded the inputs", "missing", __file__),
    *rows("load.step[0]", FORM, ["x"]),
    *rows("load.rank", "did you mean [3]?", 3),
    *rows("load.dump_after_load", f"{SWITCH}; did you mean true?", "yes"),
]
TOGETHER = [
    *rows("level", "task nan_check works at level L1 only", "mix", task="nan_check"),
    *rows("level", "task exception_dump works at level L2 only", "L1", task="exception_dump"),
    *rows("level", "level debug needs task statistics or tensor", "debug", task="overflow_check"),
    *rows("nan_check.data_mode", 'must include "output"', ["input"]),
    *rows("tensor.list", "exactly one full API name", [], ["relu"], [API, API], [MODULE], level="L2"),
    *rows("task", 'level L2 on PyTorch needs "tensor"', "statistics", level="L2", statistics={"list": [API]}),
    *rows(
        "tensor.scope", "must be empty at level L2", [API, API], level="L2", tensor={"list": [API], "scope": [API] * 2}
    ),
    *rows("async_dump", "leave out one of them", True, task="tensor", tensor={"bench_path": "."}),
    *rows("diff_check.bench_path", "is required: the golden dump to compare with", None),
]


@pytest.mark.parametrize(("raw", "path", "remedy"), COMMON + SECTION + INPUT_OVERRIDE + TOGETHER)
def test_a_bad_value(raw: dict[str, Any], path: str, remedy: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"dump_path": "x", **raw}), encoding="utf-8")
    error = error_of(file)
    assert isinstance(error, ConfigError)
    assert error.code == MsprobeException.INVALID_PARAM_ERROR
    assert [problem.path for problem in error.problems] == [path]
    (line,) = str(error).splitlines()
    assert line.startswith(f"[msprobe] Invalid parameter: {file}: {path}: ")
    assert remedy in line


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({key: value}, id=f"{key}={value!r}")
        for key, value in [
            ("task", "tensors"),
            ("task", 3),
            ("task", "run_utt"),
            ("level", "L9"),
            ("level", 0),
            ("dump_path", 3),
            ("dump_path", Path("x")),
            ("step", 3),
            ("step", [-1]),
        ]
    ],
)
def test_a_bad_argument_is_called_one(given: dict[str, Any]) -> None:
    for source, label in (({"dump_path": "x"}, "config"), (None, "default configuration")):
        error = error_of(source, **given)
        assert error.code == 0
        (line,) = str(error).splitlines()
        assert line.startswith(f"[msprobe] Invalid parameter: {label}: {next(iter(given))}")
        assert " (argument): got " in line


FIRST, SECOND = "statistics.scope[0]", "statistics.scope[1]"


@pytest.mark.parametrize(
    ("level", "scope", "path", "remedy"),
    [
        pytest.param("L1", [API], "statistics.scope", "exactly two names: the first and the last", id="one"),
        pytest.param("L1", [API] * 3, "statistics.scope", "exactly two names: the first and the last", id="three"),
        pytest.param("L1", [API, MODULE], SECOND, "modules need level L0 or mix", id="module-at-L1"),
        pytest.param("L0", [MODULE, API], SECOND, "it must be a full module name like", id="API-at-L0"),
        pytest.param("mix", [API, "a"], SECOND, "it must be a full name like", id="no-full-name"),
        pytest.param("mix", ["", API], FIRST, "it must be a full name like", id="empty"),
        pytest.param("mix", ["Functional.relu", API], FIRST, f'did you mean "{API}"?', id="no-number"),
        pytest.param("L1", ["Functional.relu.0", API], FIRST, f'did you mean "{API}"?', id="no-phase"),
        pytest.param("L0", ["Module.fc.Linear.forward", MODULE], FIRST, f'did you mean "{MODULE}"?', id="no-call"),
    ],
)
def test_scope(level: str, scope: list[str], path: str, remedy: str) -> None:
    error = error_of({"dump_path": "x", "level": level, "statistics": {"scope": scope}})
    assert isinstance(error, ScopeException)
    assert isinstance(error, ConfigError)
    assert error.code == ScopeException.INVALID_SCOPE
    (line,) = str(error).splitlines()
    assert line.startswith(f"[msprobe] Invalid scope: config: {path}: ")
    assert remedy in line
