"""API mapping: names by table or file, items by their lists, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.compare.alignment.api_mapping import api_mapping
from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.compare.select_strategy import strategy_of
from msprobe.compare.table.table import LeafTable, build_table
from msprobe.core.errors import NotComparableError
from tests.compare.alignment.sides import Data, dump
from tests.compare.dumps import call, tensor

ATTENTION = {
    "ms_api": "Functional.flash_attention_score",
    "pt_api": "NPU.npu_fusion_attention",
    "ms_args": [1, 0],
    "pt_args": [0, 1],
}


@pytest.mark.parametrize(
    ("mindspore", "pytorch"),
    [
        pytest.param("Mint.add", "Torch.add", id="mint"),
        pytest.param("MintFunctional.relu", "Functional.relu", id="mint-functional"),
        pytest.param("Functional.dense", "Functional.linear", id="renamed"),
        pytest.param("Functional.abs", "Torch.abs", id="moved"),
        pytest.param("Tensor.asnumpy", "Tensor.numpy", id="method"),
        pytest.param("Primitive.norm.RmsNorm", "Primitive.norm.RmsNorm", id="unknown"),
    ],
)
def test_the_built_in_table(mindspore: str, pytorch: str) -> None:
    assert api_mapping(True)(mindspore) == pytorch


def _table(target: tuple[str, Data], golden: tuple[str, Data], given: Any) -> LeafTable:
    ours, theirs = dump(target[1], framework=target[0]), dump(golden[1], framework=golden[0])
    return build_table(ours, theirs, strategy_of(ours, theirs, read_mapping_options({"api_mapping": given})))


def _suffixes(table: LeafTable) -> set[tuple[str | None, str | None]]:
    return {(a and a.suffix, b and b.suffix) for a, b in zip(table.target, table.golden, strict=True)}


MINDSPORE: Data = {"Functional.flash_attention_score.0.forward": call([tensor(), tensor(2), tensor(3)], [tensor()])}
PYTORCH: Data = {"NPU.npu_fusion_attention.0.forward": call([tensor(2), tensor(), tensor(4)], [tensor()])}
WANTED = {
    (".input.0", ".input.1"),
    (".input.1", ".input.0"),
    (".output.0", ".output.0"),
    (".input.2", None),
    (None, ".input.2"),
}


@pytest.mark.parametrize("spelling", ["output", "outputs"])
def test_items_pair_as_listed(spelling: str) -> None:
    given = [{**ATTENTION, f"ms_{spelling}": [0], f"pt_{spelling}": [0]}]
    assert _suffixes(_table(("mindspore", MINDSPORE), ("pytorch", PYTORCH), given)) == WANTED


def test_the_other_direction() -> None:
    found = _suffixes(_table(("pytorch", PYTORCH), ("mindspore", MINDSPORE), [ATTENTION]))
    assert found == {(b, a) for a, b in WANTED}


def test_an_empty_list_leaves_all_items_alone() -> None:
    found = _suffixes(
        _table(("mindspore", MINDSPORE), ("pytorch", PYTORCH), [{**ATTENTION, "ms_output": [], "pt_output": []}])
    )
    assert (".output.0", None) in found and (None, ".output.0") in found


def test_functions_that_become_one_are_counted_together() -> None:
    ours: Data = {
        "Mint.add.0.forward": call([tensor(1)], [tensor(1)]),
        "Functional.add.0.forward": call([tensor(2)], [tensor(2)]),
        "Mint.add.1.forward": call([tensor(3)], [tensor(3)]),
    }
    theirs: Data = {f"Torch.add.{at}.forward": call([tensor(at + 1)], [tensor(at + 1)]) for at in range(3)}
    table = _table(("mindspore", ours), ("pytorch", theirs), True)
    assert [(pair.target, pair.golden) for pair in table.entries] == list(zip(ours, theirs, strict=True))


def test_no_table_is_built_in_between_two_pytorch_dumps() -> None:
    with pytest.raises(NotComparableError, match="neither dump is MindSpore's"):
        _table(("pytorch", PYTORCH), ("pytorch", PYTORCH), True)
    renamed = [{"ms_api": "NPU.npu_fusion_attention", "pt_api": "Torch.attention"}]
    other: Data = {"Torch.attention.0.forward": PYTORCH["NPU.npu_fusion_attention.0.forward"]}
    table = _table(("pytorch", PYTORCH), ("pytorch", other), renamed)
    assert [pair.golden for pair in table.entries] == ["Torch.attention.0.forward"]
