"""load_config: defaults, precedence of arguments, and every fault reported at once with its place."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.config import DumpConfig, IntRanges, check_config, load_config
from msprobe.core.config.fields import ALL_FLOWS
from msprobe.core.config.problems import ADVISED_KEYS
from msprobe.core.errors import ConfigError, ConfigTextError, MsprobeException


def problems(raw: dict[str, Any], **overrides: Any) -> dict[str, str]:
    """Path -> text of each problem; dump_path is supplied so that only the faults under test appear."""
    report = check_config({"dump_path": "x", **raw}, **overrides)
    return {problem.path: str(problem) for problem in report.problems}


def loaded(raw: dict[str, Any], **overrides: Any) -> DumpConfig:
    report = check_config({"dump_path": "x", **raw}, **overrides)
    assert report.config is not None, report.problems
    return report.config


def test_no_file_gives_the_documented_defaults() -> None:
    config = load_config(None)
    assert (config.task, config.level, config.dump_path) == ("statistics", "L1", "./dump_path")
    assert (config.rank, config.step) == (IntRanges(), IntRanges())
    assert (config.async_dump, config.dump_enable, config.extra_info) == (False, None, True)
    assert (config.precision, config.risk_level, config.custom_op_namespaces) == ("low", "FOCUS", ("_C_ascend",))
    assert config.load is None
    assert config.section.data_mode == ALL_FLOWS


def test_the_packaged_file_says_what_the_model_says() -> None:
    assert load_config(None).model_copy(update={"dump_path": ""}) == DumpConfig()


def test_arguments_beat_the_file_and_none_means_not_given() -> None:
    raw = {"task": "tensor", "level": "L0", "step": [1], "dump_path": "a"}
    config = load_config(raw, task=None, level="mix", step=["4-6"], dump_path="b")
    assert (config.task, config.level, config.step, config.dump_path) == ("tensor", "mix", IntRanges.of("4-6"), "b")


def test_an_unknown_argument_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="lvel"):
        load_config(None, lvel="L0")


@pytest.mark.parametrize("key", ["task", "level", "rank", "step", "dump_enable", "custom_op_namespaces", "load"])
def test_null_means_not_given(key: str) -> None:
    assert loaded({key: None}) == loaded({})


@pytest.mark.parametrize("key", ["task", "level"])
def test_an_empty_text_means_not_given(key: str) -> None:
    assert loaded({key: ""}) == loaded({})


@pytest.mark.parametrize("value", [None, ""])
def test_an_empty_risk_level_means_all(value: str | None) -> None:
    assert loaded({"risk_level": value}).risk_level == "ALL"


def test_null_inside_a_section_means_default() -> None:
    keys = ["scope", "list", "tensor_list", "data_mode", "summary_mode", "slice", "request_id"]
    assert loaded({"statistics": dict.fromkeys(keys)}) == loaded({})


def test_the_old_task_name_is_understood() -> None:
    config = loaded({"task": "run_ut", "run_ut": {"white_list": ["conv1d"]}})
    assert config.task == "acc_check"
    assert config.acc_check.white_list == ("conv1d",)


def test_all_faults_come_at_once_one_line_each() -> None:
    raw = {"task": "tensor", "level": "L7", "rank": [-1], "async_dump": 1, "tensor": {"scope": ["a"], "list": [3]}}
    with pytest.raises(ConfigError) as caught:
        load_config(raw)
    places = [problem.path for problem in caught.value.problems]
    assert places == ["rank[0]", "level", "async_dump", "tensor.list[0]", "dump_path"]
    assert len(str(caught.value).splitlines()) == len(places)
    assert caught.value.code == MsprobeException.INVALID_PARAM_ERROR


def test_one_mistake_is_told_once() -> None:
    """A faulty level must not also make every scope name look wrong."""
    assert list(problems({"level": "L9", "statistics": {"scope": ["Module.a.A.forward.0"] * 2}})) == ["level"]


def test_a_fault_in_an_idle_section_is_only_a_warning() -> None:
    report = check_config({"dump_path": "x", "task": "statistics", "tensor": {"diff_nums": 0}})
    assert report.config is not None
    assert [warning.split(":")[0] for warning in report.warnings] == ["tensor.diff_nums"]
    assert report.config.tensor.diff_nums == 1


def test_warnings_go_to_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    load_config({"dump_path": "x", "dmp_enable": True})
    assert 'dmp_enable: unknown key, it has no effect; did you mean "dump_enable"?' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raw", "warned"),
    [
        ({"statistics": {"summary_mod": "md5"}}, "statistics.summary_mod: unknown key, it has no effect; did you mean"),
        (
            {"statistics": {"slice": [{"dimm": 1}]}},
            "statistics.slice[0].dimm: unknown key, it has no effect; did you mean",
        ),
        (
            {"load": {"path": "p", "modules": ["Module.a.A.forward.0"], "ranks": [0]}},
            "load.ranks: unknown key, it has no effect; did you mean",
        ),
        ({"filters": ["x"]}, "filters: has no effect; choose calls with `scope` and `list`"),
        (
            {"statistics": {"keep_all_ranks": True}},
            "statistics.keep_all_ranks: has no effect; every rank writes its own",
        ),
        ({"colour": 1}, "colour: unknown key, it has no effect; known keys:"),
        ({"task": "tensor", "tensor": {"tensor_list": ["a"]}}, "tensor.tensor_list: has no effect in this section"),
        ({"run_ut": {}, "acc_check": {}}, "run_ut: has no effect"),
        ({"acc_check": {}, "run_ut": {}}, "run_ut: has no effect"),
    ],
)
def test_what_has_no_effect_is_a_warning(raw: dict[str, Any], warned: str) -> None:
    report = check_config({"dump_path": "x", **raw})
    assert report.config is not None
    assert any(warning.startswith(warned) for warning in report.warnings), report.warnings


@pytest.mark.parametrize("word", sorted(ADVISED_KEYS))
def test_words_of_the_guides_of_servers_have_advice(word: str) -> None:
    for raw, where in [({word: 1}, word), ({"statistics": {word: 1}}, f"statistics.{word}")]:
        (line,) = check_config({"dump_path": "./dump", **raw}).warnings
        assert line == f"{where}: has no effect; {ADVISED_KEYS[word]}"


def test_remarks_of_people_and_editors_deserve_no_warning() -> None:
    remarks = {"$schema": "https://example.org/config.schema.json", "_why": "run 7", "//": "the good run"}
    assert check_config({"dump_path": "x", **remarks}).warnings == ()


@pytest.mark.parametrize("path", ["/data/a b/ü/数据", "C:\\dump", "./x", "a" * 255])
def test_any_readable_path_is_accepted(path: str) -> None:
    assert loaded({"dump_path": path}).dump_path == path


def test_a_load_only_run_needs_no_dump_path() -> None:
    load = {"path": "golden", "modules": ["Module.a.A.forward.0"]}
    assert load_config({"load": load}).load_only
    with pytest.raises(ConfigError, match="dump_path"):
        load_config({"load": {**load, "dump_after_load": True}})


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([], ALL_FLOWS),
        (["all"], ALL_FLOWS),
        (["forward"], {"forward", "input", "output"}),
        (["output"], {"forward", "backward", "output"}),
        (["backward", "input"], {"backward", "input"}),
        (["forward", "backward", "input", "output"], ALL_FLOWS),
    ],
)
def test_data_mode_without_an_axis_means_both_of_it(written: list[str], kept: set[str]) -> None:
    assert loaded({"statistics": {"data_mode": written}}).section.data_mode == kept


@pytest.mark.parametrize("task", ["structure", "acc_check", "overflow_check", "diff_check", "nan_check"])
def test_every_section_offers_neutral_selection(task: str) -> None:
    section = loaded({"task": task}).section
    assert (section.scope, section.names, section.tensor_list, section.slice) == ((), (), (), ())
    assert (section.data_mode, section.summary_mode, section.bench_path) == (ALL_FLOWS, "statistics", None)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config(None).level = "L0"  # type: ignore[misc]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*sorted(DumpConfig.model_fields), "run_ut", "other"])
SECTION_KEYS = st.sampled_from([
    "scope",
    "list",
    "tensor_list",
    "data_mode",
    "summary_mode",
    "slice",
    "path",
    "modules",
])
RAW = st.dictionaries(KEYS, JSON | st.dictionaries(SECTION_KEYS, JSON, max_size=3), max_size=5)


@given(RAW)
def test_any_dict_is_either_a_config_or_a_list_of_problems(raw: dict[str, Any]) -> None:
    report = check_config(raw)
    assert (report.config is None) == bool(report.problems)
    assert all(str(problem).strip() for problem in report.problems)


@given(RAW)
def test_a_config_written_out_reads_back_as_itself(raw: dict[str, Any]) -> None:
    config = check_config({**raw, "dump_path": "x"}).config
    if config is not None:
        again = DumpConfig.model_validate_json(config.model_dump_json(by_alias=True))
        assert again == config


@pytest.mark.parametrize("begun", ["", '{"level": "L1", "dump_'], ids=["empty", "cut off"])
def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path, begun: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(begun)
    writer = threading.Timer(0.1, path.write_text, ['{"level": "L1", "dump_path": "here"}'])
    writer.start()
    config = load_config(path)
    writer.join()
    assert (config.level, config.dump_path) == ("L1", "here")


@pytest.mark.parametrize("age", [0.0, 60.0], ids=["now", "earlier"])
def test_a_file_that_stays_unfinished_is_refused(tmp_path: Path, age: float) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"level": "L1", "dump_')
    written = time.time() - age
    os.utime(path, (written, written))
    with pytest.raises(ConfigTextError, match="not valid JSON at line 1"):
        load_config(path)
    assert (time.time() - written - age < 0.3) is (age > 0)
