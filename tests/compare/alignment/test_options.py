"""Keywords of the mappings: what they may be, and what is told about them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.core.errors import MsprobeException


@pytest.mark.parametrize("nothing", [None, False, ""], ids=repr)
def test_what_is_not_wanted_is_not_given(nothing: Any) -> None:
    options = read_mapping_options(
        dict.fromkeys(("cell_mapping", "api_mapping", "data_mapping", "layer_mapping"), nothing)
    )
    assert not options.given


GIVEN: dict[str, Any] = {
    "cell_mapping": {"fc1.Dense": "fc1.Linear"},
    "api_mapping": [{"ms_api": "Mint.a", "pt_api": "Torch.b", "ms_args": ["0"], "pt_args": ["1"]}],
    "layer_mapping": {"TopLayer": {"a": "b"}},
    "data_mapping": {"Torch.x.0.forward": None, "Torch.y.0.forward": "Torch.z.0.forward"},
}


@pytest.mark.parametrize("name", ["cell_mapping", "api_mapping", "layer_mapping"])
def test_what_is_built_in_is_given(name: str) -> None:
    options = read_mapping_options({name: True})
    assert options.given and getattr(options, name) is True


@pytest.mark.parametrize("name", GIVEN)
def test_a_file_is_read_once_and_its_content_travels(name: str, tmp_path: Path) -> None:
    """The file may be gone when a worker on another machine compares."""
    path = tmp_path / "mapping.yaml"
    path.write_text(yaml.safe_dump(GIVEN[name]))
    options = read_mapping_options({name: str(path)})
    path.unlink()
    assert getattr(options, name) == GIVEN[name] == json.loads(json.dumps(getattr(options, name)))
    assert read_mapping_options({name: getattr(options, name)}) == options == read_mapping_options({name: GIVEN[name]})


@pytest.mark.parametrize("keywords", [{"data_mapping": True}, {"cell_mapping": 3}, {"layers": "x"}], ids=str)
def test_what_no_mapping_can_be(keywords: dict[str, Any]) -> None:
    with pytest.raises(MsprobeException, match=next(iter(keywords))):
        read_mapping_options(keywords)


def test_an_empty_file_is_a_mapping_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("")
    assert read_mapping_options({"cell_mapping": tmp_path / "c.yaml"}).cell_mapping == {}


def test_what_a_layer_mapping_makes_useless_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="msprobe"):
        read_mapping_options({"layer_mapping": True, "cell_mapping": {"a": "b"}, "fuzzy_match": True})
    assert "beside a layer mapping fuzzy_match, cell_mapping is not used" in caplog.text
