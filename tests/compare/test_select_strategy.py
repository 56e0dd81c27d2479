"""Which strategy the options, frameworks and the policy give, and which names it sees."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from msprobe.compare.alignment.by_name import ExactMatch, FuzzyMatch, SequenceMatch
from msprobe.compare.alignment.cell_mapping import Renamed
from msprobe.compare.alignment.layer_mapping import LayerMapping
from msprobe.compare.alignment.options import MAPPING_OPTIONS, MappingKeywords, MappingOptions, mapping_options
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.layer_inference.inferred_match import InferredMatch
from msprobe.compare.records.entries import entry_keys
from msprobe.compare.select_strategy import STRATEGIES, strategy_of
from tests.compare.alignment.sides import dump, pairs

NO_DATA = {"Torch.add.0.forward": {}}


@pytest.mark.parametrize(
    ("options", "frameworks", "published", "strategy"),
    [
        pytest.param({}, "pytorch pytorch", False, SequenceMatch, id="nothing"),
        pytest.param({}, "pytorch pytorch", True, ExactMatch, id="nothing-published"),
        pytest.param({"fuzzy_match": True}, "pytorch pytorch", False, FuzzyMatch, id="fuzzy"),
        pytest.param({"layer_mapping": True}, "pytorch pytorch", False, InferredMatch, id="built-in-layers"),
        pytest.param({"layer_mapping": True}, "pytorch pytorch", True, LayerMapping, id="built-in-layers-published"),
        pytest.param({"layer_mapping": {"TopLayer": {}}}, "pytorch pytorch", False, LayerMapping, id="layers"),
        pytest.param({}, "mindspore pytorch", False, InferredMatch, id="two-frameworks"),
        pytest.param({}, "mindspore pytorch", True, ExactMatch, id="two-frameworks-published"),
        pytest.param({"fuzzy_match": True}, "mindspore pytorch", False, FuzzyMatch, id="two-frameworks-fuzzy"),
    ],
)
def test_the_strategy(options: dict[str, Any], frameworks: str, published: bool, strategy: type) -> None:
    target, golden = (dump(NO_DATA, framework=name) for name in frameworks.split())
    found = strategy_of(target, golden, mapping_options(options), published=published)
    assert isinstance(found.strategy if isinstance(found, Renamed) else found, strategy)


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        pytest.param(("mindspore", "Mint.add"), ("pytorch", "Torch.add"), id="mindspore"),
        pytest.param(("pytorch", "Torch.add"), ("mindspore", "Mint.add"), id="mindspore-second"),
        pytest.param(("mindspore", "Mint.add"), ("mindtorch", "MintFunctional.x"), id="no-partner"),
        pytest.param(("mindspore", "Functional.abs"), ("mindtorch", "Torch.abs"), id="both-have-own-names"),
        pytest.param(("jax", "Torch.add"), ("pytorch", "Torch.add"), id="unknown-framework"),
    ],
)
def test_names_of_any_two_frameworks_are_read_as_pytorch_names(
    target: tuple[str, str], golden: tuple[str, str]
) -> None:
    sides = [
        Side(side, entry_keys(side.data, {}))
        for side in (dump({f"{name}.0.forward": {}}, framework=framework) for framework, name in (target, golden))
    ]
    strategy = strategy_of(sides[0].dump, sides[1].dump, mapping_options({"cell_mapping": True}))
    assert len(pairs(strategy, *sides)) == (golden[1] != "MintFunctional.x")


def test_the_tables_agree_with_the_options() -> None:
    keywords = {option.keyword for option in MAPPING_OPTIONS}
    assert keywords <= MappingKeywords.__annotations__.keys()
    assert MappingKeywords.__annotations__.keys() == {option.name for option in fields(MappingOptions)} - {"files"}
    assert {row.option for row in STRATEGIES} - {None, ""} <= keywords
    assert len({option.flag for option in MAPPING_OPTIONS}) == len(MAPPING_OPTIONS)
