"""Data mapping: the listed items pair, wherever they are; the others as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.compare.rows.cells import item_names
from msprobe.compare.select_strategy import strategy_of
from msprobe.compare.table.table import build_table
from msprobe.jobs.compare import compare
from tests.compare.alignment.sides import Data, dump
from tests.compare.dumps import call, gradient, tensor, write

CONV = "Functional.conv2d"
TARGET: Data = {
    f"{CONV}.0.forward": call([tensor(1), tensor(2)], [tensor(3)]),
    "Torch.relu.0.forward": call([tensor(3)], [tensor(4)]),
    f"{CONV}.0.backward": gradient([tensor(5)], [tensor(6)]),
}
GOLDEN: Data = {
    f"{CONV}.0.forward": call([tensor(7)], [tensor(7)]),
    f"{CONV}.3.forward": call([tensor(1), tensor(2)], [tensor(3)]),
    "Torch.relu.0.forward": call([tensor(3)], [tensor(4)]),
    f"{CONV}.3.backward": gradient([tensor(5)], [tensor(6)]),
}


def rows(mapping: dict[str, str | None]) -> list[tuple[str, str]]:
    target, golden = dump(TARGET), dump(GOLDEN)
    options = read_mapping_options({"data_mapping": mapping})
    table = build_table(target, golden, strategy_of(target, golden, options))
    return list(zip(*item_names(table, 0, len(table.entries)), strict=True))


def test_listed_items_pair_and_the_others_keep_their_own() -> None:
    found = rows({
        f"{CONV}.0.forward.input.0": f"{CONV}.3.forward.input.0",
        f"{CONV}.0.forward.output.0": f"{CONV}.3.forward.output.0",
    })
    assert (f"{CONV}.0.forward.input.0", f"{CONV}.3.forward.input.0") in found
    assert (f"{CONV}.0.forward.output.0", f"{CONV}.3.forward.output.0") in found
    assert ("Torch.relu.0.forward.input.0", "Torch.relu.0.forward.input.0") in found


def test_items_of_one_entry_may_come_from_several() -> None:
    found = rows({
        f"{CONV}.0.forward.input.0": f"{CONV}.3.forward.input.0",
        f"{CONV}.0.forward.input.1": "Torch.relu.0.forward.input.0",
        f"{CONV}.0.forward.output.0": f"{CONV}.3.forward.output.0",
    })
    assert (f"{CONV}.0.forward.input.1", "Torch.relu.0.forward.input.0") in found
    names = [golden for _, golden in found if golden != "N/A"]
    assert len(names) == len(set(names))


def test_a_whole_entry_pairs_by_its_items() -> None:
    found = rows({f"{CONV}.0.forward": f"{CONV}.3.forward", f"{CONV}.0.backward": f"{CONV}.3.backward"})
    for suffix in ("forward.input.0", "forward.input.1", "forward.output.0", "backward.input.0", "backward.output.0"):
        assert (f"{CONV}.0.{suffix}", f"{CONV}.3.{suffix}") in found


@pytest.mark.parametrize("nothing", ["N/A", None])
def test_an_item_may_have_no_partner(nothing: str | None) -> None:
    assert ("Torch.relu.0.forward.output.0", "N/A") in rows({"Torch.relu.0.forward.output.0": nothing})


def test_every_item_keeps_its_row() -> None:
    found = rows({f"{CONV}.0.forward.input.0": f"{CONV}.3.forward.output.0"})
    assert len([target for target, _ in found if target != "N/A"]) == 7
    assert {golden for _, golden in found} >= {f"{CONV}.3.forward.input.1", f"{CONV}.3.forward.input.0"}


def test_two_calls_that_only_the_file_pairs_share_what_it_lists() -> None:
    data: Data = {"Torch.cos.0.forward": call([tensor(1)], [tensor(2)])}
    other: Data = {"Torch.sin.0.forward": call([tensor(1)], [tensor(2)])}
    options = read_mapping_options({"data_mapping": {"Torch.cos.0.forward.output.0": "Torch.sin.0.forward.output.0"}})
    table = build_table(dump(data), dump(other), strategy_of(dump(data), dump(other), options))
    found = set(zip(*item_names(table, 0, len(table.entries)), strict=True))
    assert ("Torch.cos.0.forward.output.0", "Torch.sin.0.forward.output.0") in found
    assert {("Torch.cos.0.forward.input.0", "N/A"), ("N/A", "Torch.sin.0.forward.input.0")} < found


def test_values_come_from_the_listed_item(tmp_path: Path) -> None:
    """The difference of the table is that of the paired items, across entries too."""
    target, golden = write(tmp_path / "t", TARGET), write(tmp_path / "g", GOLDEN)
    mapping = {f"{CONV}.0.forward": f"{CONV}.3.forward", f"{CONV}.0.backward": f"{CONV}.3.backward"}
    result = compare(target, golden, data_mapping=mapping)
    assert result.summary.counts.passed == 7 and result.summary.counts.error == 0
    wrong = compare(
        target, golden, data_mapping={**mapping, "Torch.relu.0.forward.output.0": f"{CONV}.0.forward.input.0"}
    )
    assert wrong.summary.counts.error == 1
