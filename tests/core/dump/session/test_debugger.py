"""One model or several, and what is none."""

from __future__ import annotations

import pytest

from msprobe.core.dump.session.debugger import counted_model, models_with_prefixes
from msprobe.core.errors import MsprobeException


class Model:
    pass


def test_a_single_model_has_the_plain_head() -> None:
    model = Model()
    assert models_with_prefixes(model, Model, "Model", "Module") == [("Module", model)]


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_are_numbered(kind: type) -> None:
    first, second = Model(), Model()
    expected = [("Module.0", first), ("Module.1", second)]
    assert models_with_prefixes(kind([first, second]), Model, "Model", "Module") == expected


@pytest.mark.parametrize(
    "given, told",
    [
        pytest.param(3, "expected a Model or a list, tuple or mapping of them, got int", id="number"),
        pytest.param([Model(), "x"], "got str at position 1", id="text_in_a_list"),
        pytest.param([], "the list of models is empty; give a Model", id="empty_list"),
        pytest.param((), "the list of models is empty; give a Model", id="empty_tuple"),
    ],
)
def test_what_is_no_model_is_told(given: object, told: str) -> None:
    with pytest.raises(MsprobeException, match=told):
        models_with_prefixes(given, Model, "Model", "Module")


@pytest.mark.parametrize("several", [False, True])
def test_calls_of_the_first_model_are_counted(several: bool) -> None:
    model = Model()
    assert counted_model([model, Model()] if several else model, Model, "Model") is model


@pytest.mark.parametrize(
    "given, told",
    [
        pytest.param([], "counts the calls of a Model, got list", id="empty_list"),
        pytest.param(None, "counts the calls of a Model, got NoneType", id="none"),
        pytest.param(["x"], "counts the calls of a Model, got str", id="text_in_a_list"),
    ],
)
def test_what_is_no_model_has_no_calls_to_count(given: object, told: str) -> None:
    with pytest.raises(MsprobeException, match=told):
        counted_model(given, Model, "Model")
