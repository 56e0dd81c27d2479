"""One model or several, and what is none."""

from __future__ import annotations

import pytest

from msprobe.core.dump.given_models import headed_models
from msprobe.core.errors import MsprobeException


class Model:
    pass


def test_a_single_model_has_the_plain_head() -> None:
    model = Model()
    assert headed_models(model, Model, "Model", "Module") == [("Module", model)]


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_are_numbered(kind: type) -> None:
    first, second = Model(), Model()
    expected = [("Module.0", first), ("Module.1", second)]
    assert headed_models(kind([first, second]), Model, "Model", "Module") == expected


@pytest.mark.parametrize(
    "given, told",
    [
        pytest.param(3, "expected a Model or a list or tuple of them, got int", id="number"),
        pytest.param([Model(), "x"], "got str at position 1", id="text_in_a_list"),
        pytest.param([], "the list of models is empty; give a Model", id="empty_list"),
        pytest.param((), "the list of models is empty; give a Model", id="empty_tuple"),
    ],
)
def test_what_is_no_model_is_told(given: object, told: str) -> None:
    with pytest.raises(MsprobeException, match=told):
        headed_models(given, Model, "Model", "Module")
