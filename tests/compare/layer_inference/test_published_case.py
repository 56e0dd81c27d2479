"""The published layer-mapping case without its mapping file: inference finds what a person wrote by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from msprobe.jobs.compare import CompareResult, compare

CASE = Path(__file__).parents[2] / "golden_compare" / "17_layer_mapping_ms_pt"


@pytest.fixture
def result(tmp_path: Path) -> CompareResult:
    return compare(CASE / "target" / "dump.json", CASE / "golden" / "dump.json", output=tmp_path)


def test_the_same_items_pair(result: CompareResult) -> None:
    wanted = yaml.safe_load((CASE / "expected_data_mapping.yaml").read_text())
    assert {row.target: row.golden for row in result.rows() if row.target in wanted} == wanted


def test_the_written_map_has_the_rules_of_the_published_one(result: CompareResult, tmp_path: Path) -> None:
    (file,) = tmp_path.glob("layer_mapping_*.yaml")
    sections = yaml.safe_load(file.read_text())
    wanted = yaml.safe_load((CASE / "layer.yaml").read_text())
    del wanted["TopLayer"]  # it names a wrapper, here the layers below it are named
    assert {name: {left: sections[name].get(left) for left in rules} for name, rules in wanted.items()} == wanted


def test_the_written_map_given_back_pairs_the_same_items(result: CompareResult, tmp_path: Path) -> None:
    (file,) = tmp_path.glob("layer_mapping_*.yaml")
    again = compare(CASE / "target" / "dump.json", CASE / "golden" / "dump.json", layer_mapping=file)
    assert {row.target: row.golden for row in again.rows()} == {row.target: row.golden for row in result.rows()}
