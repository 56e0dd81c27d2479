"""What is recorded: list, scope, data_mode, risk level, and how the configuration joins them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.config import load_config
from msprobe.core.selection import (
    DataMode,
    ScopeWindow,
    build_selection,
    describe_filters,
    is_entry,
    name_test,
    risk_test,
    sample_test,
    uses_risk_level,
)

ENTRIES = [f"Functional.{api}.{call}.forward" for api in ("relu", "linear") for call in (0, 1, 10)]


def test_no_list_filters_nothing() -> None:
    assert name_test([]) is None


@given(st.lists(st.sampled_from(ENTRIES), min_size=1), st.sampled_from(ENTRIES))
def test_full_names_mean_exactly_themselves(listed: list[str], name: str) -> None:
    test = name_test(listed)
    assert test is not None
    assert test(name) == (name in listed)


@given(st.lists(st.text("relun.01", min_size=1, max_size=4), min_size=1), st.sampled_from(ENTRIES))
def test_fragments_mean_every_name_they_are_part_of(listed: list[str], name: str) -> None:
    test = name_test(listed)
    assert test is not None
    assert test(name) == any(fragment in name for fragment in listed)


def test_full_names_and_fragments_together() -> None:
    test = name_test(["Functional.linear.1.forward", "relu"])
    assert test is not None
    assert [name for name in ENTRIES if test(name)] == [*ENTRIES[:3], "Functional.linear.1.forward"]


@pytest.mark.parametrize(("text", "whole"), [("relu", False), ("Module.fc", False), (ENTRIES[0], True), ("", False)])
def test_what_is_a_full_name(text: str, whole: bool) -> None:
    assert is_entry(text) is whole


def seen(window: ScopeWindow, calls: str) -> str:
    """Runs calls given as letters: a capital begins a call, its small letter ends it. Which began in the window?"""
    found = ""
    for letter in calls:
        if letter.isupper():
            found += letter if window.begin(letter) else ""
        else:
            window.end(letter.upper())
    return found


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("XxFfYyLlZz", "FYL"),
        ("FfXxFfLlFf", "FXFL"),
        ("LlFfXx", "FX"),
        ("FXxfYyLZzlQq", "FXYLZ"),
        ("PFfLlpXx", "FL"),
        ("XxYy", ""),
    ],
)
def test_the_window_keeps_both_ends_whole(calls: str, expected: str) -> None:
    assert seen(ScopeWindow("F", "L"), calls) == expected


def test_a_window_of_one_call() -> None:
    assert seen(ScopeWindow("F", "F"), "XxFYyfZzFf") == "FY"


@given(st.lists(st.sampled_from("ABCF"), max_size=6), st.lists(st.sampled_from("ABCX"), max_size=6), st.text("ABC"))
def test_what_lies_before_and_after_is_left_out(before: list[str], inside: list[str], after: str) -> None:
    before = [name for name in before if name != "F"]
    calls = "".join(name + name.lower() for name in [*before, "F", *inside, "L", *after])
    assert seen(ScopeWindow("F", "L"), calls) == "".join(["F", *inside, "L"])


@given(st.sets(st.sampled_from(["forward", "backward", "input", "output"])))
def test_an_axis_that_is_not_named_counts_whole(names: set[str]) -> None:
    modes = DataMode.of(names)
    assert (modes.forward, modes.backward) == (
        ("forward" in names, "backward" in names) if names & {"forward", "backward"} else (True, True)
    )
    assert (modes.input, modes.output) == (
        ("input" in names, "output" in names) if names & {"input", "output"} else (True, True)
    )
    assert modes.parameters_grad == modes.backward


def test_risk_levels() -> None:
    names = ["matmul", "relu", "view"]

    def kept(level: str) -> list[str]:
        return [name for name in names if risk_test(level, ["matmul"], ["view"])(name)]

    assert (kept("CORE"), kept("FOCUS"), kept("ALL")) == (["matmul"], ["matmul", "relu"], names)


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({}, True),
        ({"level": "mix"}, True),
        ({"level": "L0"}, False),
        ({"statistics": {"list": ["relu"]}}, False),
        ({"statistics": {"scope": ["Functional.relu.0.forward", "Functional.relu.1.forward"]}}, False),
    ],
)
def test_when_the_risk_level_counts(settings: dict[str, Any], counts: bool) -> None:
    assert uses_risk_level(load_config({"dump_path": "d", **settings})) is counts


def test_the_selection_of_a_configuration() -> None:
    section = {
        "list": ["relu"],
        "scope": ["Functional.relu.0.forward", "Functional.relu.1.forward"],
        "data_mode": ["forward"],
        "tensor_list": ["linear"],
    }
    config = load_config({"dump_path": "d", "statistics": section})
    selection = build_selection(config)
    assert selection.filtered
    scope = '["Functional.relu.0.forward", "Functional.relu.1.forward"]'
    assert describe_filters(config) == f'list ["relu"], scope {scope}, data_mode ["forward", "input", "output"]'
    assert selection.tensors is not None
    assert selection.tensors("Functional.linear.0.forward")
    assert not selection.inherits
    config = load_config({"dump_path": "d", "level": "mix"})
    plain = build_selection(config)
    assert (plain.filtered, describe_filters(config), plain.inherits) == (False, "", True)


def test_a_sample_follows_from_names_alone_and_grows_with_its_share() -> None:
    names = [f"Torch.add.{number}.forward" for number in range(2000)]
    tests = [sample_test(share) for share in (0.05, 0.3, 0.6)]
    chosen = [{name for name in names if test is not None and test(name)} for test in tests]
    assert chosen[0] < chosen[1] < chosen[2]
    assert 0.27 < len(chosen[1]) / len(names) < 0.33
    assert sample_test(1.0) is None
    kept = sample_test(1e-9, ["Torch.add.3.backward"])
    assert kept is not None and [name for name in names if kept(name)] == ["Torch.add.3.forward"]
