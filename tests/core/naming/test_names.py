"""Entry names: what is written reads back as the same value, and what is no name is refused at the right place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.naming import (
    ApiName,
    DebugName,
    ModuleName,
    NameSyntaxError,
    Phase,
    Slot,
    TensorName,
    parse_entry,
    parse_tensor,
)

WORDS = st.text(st.characters(exclude_characters=".", exclude_categories=["Cs"]), min_size=1, max_size=8)
COUNTS = st.integers(0, 10**9)
PATHS = st.lists(WORDS, max_size=4).map(".".join)
DEEP = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
PREFIXES = WORDS.filter(lambda word: word not in ("Module", "Cell"))
APIS = st.builds(ApiName, PREFIXES, DEEP, COUNTS, st.sampled_from([Phase.FORWARD, Phase.BACKWARD]))
MODULES = st.builds(ModuleName, st.sampled_from(["Module", "Cell"]), PATHS, WORDS, st.sampled_from(Phase), COUNTS)
SAVED = st.builds(DebugName, st.lists(WORDS, min_size=1, max_size=3).map(".".join), COUNTS).filter(
    lambda name: name.name.split(".")[0] not in ("Module", "Cell")
)
SLOT_WORDS = {slot.value for slot in Slot}


@given(APIS | MODULES | SAVED)
def test_a_name_reads_back_as_itself(name: ApiName | ModuleName | DebugName) -> None:
    assert parse_entry(str(name)) == name


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_refused_inside_it(text: str) -> None:
    try:
        assert str(parse_entry(text)).count(".") == text.count(".")
    except NameSyntaxError as error:
        assert 0 <= error.position <= len(text)
        assert error.text == text


@given(APIS | MODULES, st.sampled_from(Slot), st.lists(WORDS.filter(lambda word: word not in SLOT_WORDS), max_size=3))
def test_a_tensor_place_reads_back_as_itself(entry: ApiName | ModuleName, slot: Slot, path: list[str]) -> None:
    place = TensorName(entry, slot, tuple(path))
    assert parse_tensor(str(place)) == place


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Torch.linalg.norm.3.backward", ApiName("Torch", "linalg.norm", 3, Phase.BACKWARD)),
        ("Tensor.__add__.0.forward", ApiName("Tensor", "__add__", 0, Phase.FORWARD)),
        ("Module.0.fc.Linear.forward.7", ModuleName("Module", "0.fc", "Linear", Phase.FORWARD, 7)),
        ("Module.fc.Linear.parameters_grad", ModuleName("Module", "fc", "Linear", Phase.PARAMETERS_GRAD, None)),
        ("Module.forward.Linear.forward.0", ModuleName("Module", "forward", "Linear", Phase.FORWARD, 0)),
        ("Cell.Net.backward.0", ModuleName("Cell", "", "Net", Phase.BACKWARD, 0)),
        ("loss.total.2.debug", DebugName("loss.total", 2)),
    ],
)
def test_known_names(text: str, name: object) -> None:
    assert parse_entry(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("relu", 0),
        ("Functional..0.forward", 11),
        ("Functional.relu.0.sideways", 18),
        ("Functional.relu.x.forward", 16),
        ("Functional.relu.\u0663.forward", 16),
        ("Functional.0.forward", 11),
        ("Module.fc.Linear.forward", 24),
        ("Module.fc.Linear.sideways.0", 17),
        ("Module.forward.0", 7),
        ("Functional.relu.0.forward.input.0", 32),
    ],
)
def test_what_is_no_name_is_refused_where_it_goes_wrong(text: str, position: int) -> None:
    with pytest.raises(NameSyntaxError) as caught:
        parse_entry(text)
    assert caught.value.position == position
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", "Functional.relu.0.forward", "a.input.0", "Module.fc.Linear.input.0"])
def test_what_is_no_tensor_place_is_refused(text: str) -> None:
    with pytest.raises(NameSyntaxError):
        parse_tensor(text)


@given(APIS | SAVED, COUNTS)
def test_another_call_of_the_same_thing_has_the_same_stem(name: ApiName | DebugName, call: int) -> None:
    assert name.with_call(call).stem == name.stem
    assert name.with_call(call).call == call
