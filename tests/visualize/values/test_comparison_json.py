"""Texts of many rows at once are those that the rows have one by one."""

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.comparison import Comparison, compare_dumps
from msprobe.compare.inputs.mode import Policy
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.core.store.record_walk import Leaf
from msprobe.numerics.verdict import Level
from msprobe.visualize.values.comparison_json import (
    ROWS_PER_BLOCK,
    DifferenceTexts,
    StatisticTexts,
    Texts,
    own_numbers,
    statistic_pairs,
)
from msprobe.visualize.values.row_verdicts import row_verdicts, verdict_text
from msprobe.visualize.values.value_json import ValueTexts
from tests.compare.dumps import call, number, tensor, write
from tests.jobs.test_share_rows import Program


def compared(folder: Path, policy: Policy) -> tuple[Comparison, dict[int, Texts]]:
    """Two made-up runs whose shapes, dtypes and flags differ here and there, and the texts of their ordinary rows."""
    dumps = []
    for side, shake in (("t", 1e-3), ("g", 0.0)):
        program = Program(0, shake, modules=True)
        if side == "g":
            tensors = (
                value for body in program.data.values() for value in body.get("output", ()) if value and "Norm" in value
            )
            for number, tensor in enumerate(tensors):
                tensor.update(({"shape": [7]}, {"requires_grad": None}, {"dtype": "torch.float16"}, {}, {})[number % 5])
        program.write(folder / side)
        dumps.append(load_dump(find_dumps(folder / side)[0]))
    comparison = compare_dumps(*dumps, policy)
    texts = StatisticTexts(statistic_pairs(comparison))
    found: dict[int, Texts] = {}
    for number in range(comparison.table.row_count // ROWS_PER_BLOCK + 1):
        found.update(texts.block(number))
    return comparison, found


def fields(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads("{" + text.rstrip(",") + "}")
    return found


def test_verdicts_are_those_of_the_rows(tmp_path: Path) -> None:
    comparison, found = compared(tmp_path, Policy.DEFAULT)
    rows = row_verdicts(comparison)
    told = {row: more for row, (_, more) in found.items() if not more.endswith(",")}
    left = [row for row in found if row not in told]
    for row, more in told.items():
        assert more.endswith(f",{verdict_text(rows.levels[row], rows.messages(row))}")
    assert {rows.levels[row] for row in told} == set(Level)
    assert left and all(rows.levels[row] for row in left), "other kinds than values are told by who has the records"


def test_the_published_policy_judges_later(tmp_path: Path) -> None:
    _, found = compared(tmp_path, Policy.REFERENCE)
    assert found and all(more.endswith(",") for _, more in found.values())


def test_numbers_and_flags_are_those_of_the_records(tmp_path: Path) -> None:
    comparison, found = compared(tmp_path, Policy.DEFAULT)
    table, consistent = comparison.table, set()
    for row, (numbers, more) in found.items():
        ours, theirs = table.target[row], table.golden[row]
        assert ours is not None and theirs is not None
        assert {name: float(text) for name, text in fields(numbers).items()} == {
            name: ours.raw[name] for name in ("Max", "Min", "Mean", "Norm")
        }
        told = fields(more)
        assert float(told["Max diff"]) == ours.raw["Max"] - theirs.raw["Max"]
        assert told["Requires_grad Consistent"] == str(ours.raw["requires_grad"] == theirs.raw["requires_grad"])
        consistent.add(told["Requires_grad Consistent"])
    assert consistent == {"True", "False"}


TENSOR = {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [2],
    "Max": 1e-05,
    "Min": -0.0,
    "Mean": 1e300,
    "Norm": 0.1,
    "requires_grad": True,
}


@pytest.mark.parametrize(
    ("change", "made"),
    [
        pytest.param({}, True, id="floats"),
        pytest.param({"Max": float("nan")}, False, id="nan"),
        pytest.param({"Min": float("-inf")}, False, id="infinite"),
        pytest.param({"Mean": 3}, False, id="integer"),
        pytest.param({"Norm": None}, False, id="null"),
    ],
)
def test_own_numbers_are_those_made_one_by_one(change: dict[str, Any], made: bool) -> None:
    found = [
        Leaf(".input.0", "input", raw) for raw in (None, {**TENSOR, **change}, {"type": "int", "value": 1}, TENSOR)
    ]
    numbers = own_numbers(found)
    assert [text is not None for text in numbers] == [False, made, False, True]
    texts = ValueTexts()
    assert [texts.open_object(leaf, text) for leaf, text in zip(found, numbers, strict=True)] == [
        texts.open_object(leaf) for leaf in found
    ]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param((), id="none"),
        pytest.param(("error: mean differs",), id="plain"),
        pytest.param(('error: argument "a\\b"\n in the target',), id="escaped"),
        pytest.param(("warning: one", "warning: two"), id="two"),
    ],
)
def test_messages_are_a_list_in_a_text(messages: tuple[str, ...]) -> None:
    told = fields(verdict_text(2, messages))
    assert told["Result"] == "error"
    assert json.loads(told["Err_message"]) == list(messages)


@pytest.mark.parametrize(("policy", "digits"), [(Policy.DEFAULT, "1.25e-07%"), (Policy.REFERENCE, "0.0%")])
def test_small_percentages_keep_their_digits(tmp_path: Path, policy: Policy, digits: str) -> None:
    """One tensor of floats and one number, each 1.25e-7 percent off."""
    dumps = []
    for side, factor in (("t", 1.0 + 1.25e-9), ("g", 1.0)):
        data = {"Torch.add.0.forward": call([tensor(), number(factor)], [tensor(factor)])}
        dumps.append(load_dump(find_dumps(write(tmp_path / side, data))[0]))
    comparison = compare_dumps(*dumps, policy)
    (_, more) = StatisticTexts(statistic_pairs(comparison)).block(0)[2]
    assert fields(more)["NormRelativeErr"] == digits
    assert fields(DifferenceTexts(comparison).of_row(1))["MaxRelativeErr"] == digits
