"""Keywords of the mappings: what they may be, and what is told about them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from msprobe.compare.alignment.options import mapping_options
from msprobe.core.errors import MsprobeException


@pytest.mark.parametrize("nothing", [None, False, ""], ids=repr)
def test_what_is_not_wanted_is_not_given(nothing: Any) -> None:
    options = mapping_options(dict.fromkeys(("cell_mapping", "api_mapping", "data_mapping", "layer_mapping"), nothing))
    assert not options.given


@pytest.mark.parametrize("name", ["cell_mapping", "api_mapping", "layer_mapping"])
@pytest.mark.parametrize("value", [True, "file.yaml", {}], ids=["built-in", "file", "content"])
def test_what_is_wanted_is_given(name: str, value: Any) -> None:
    assert mapping_options({name: value}).given


@pytest.mark.parametrize("keywords", [{"data_mapping": True}, {"cell_mapping": 3}, {"layers": "x"}], ids=str)
def test_what_no_mapping_can_be(keywords: dict[str, Any]) -> None:
    with pytest.raises(MsprobeException, match=next(iter(keywords))):
        mapping_options(keywords)


def test_what_a_layer_mapping_makes_useless_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="msprobe"):
        mapping_options({"layer_mapping": True, "cell_mapping": "c.yaml", "fuzzy_match": True})
    assert "beside a layer mapping fuzzy_match, cell_mapping is not used" in caplog.text
