"""The call of one side in which a difference arises: behind calls of both sides, beside them, and as a whole module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.comparison import Comparison, compare_dumps
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, module, number, tensor, write

BLOCK = "Module.block.Block.forward.0"
FIRST, SINE, LAST = "Functional.linear.0.forward", "Torch.sin.0.forward", "Functional.linear.1.forward"


def compared(folder: Path, sides: list[dict[str, Any]], **parents: str) -> Comparison:
    dumps = []
    for side, data in enumerate(sides):
        inside = {name: parents.get(name.split(".")[1], parents.get(name, BLOCK)) for name in data if name != BLOCK}
        write(folder / str(side), data, {**inside, BLOCK: None})
        dumps.append(load_dump(find_dumps(folder / str(side))[0]))
    return compare_dumps(dumps[0], dumps[1])


def origin_of(comparison: Comparison) -> list[str | None]:
    divergence = first_divergence(comparison)
    assert divergence is not None
    return [divergence.description.target, divergence.description.golden]


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_elements_in_another_order_come_from_the_call_that_returns_that_order(tmp_path: Path, turned: bool) -> None:
    """Calls of both sides stand between the call and the one that gets its result."""
    roll = "Tensor.roll.0.forward"
    own, rolled = tensor(2.0, Projection=0.7), tensor(2.0, Projection=-1.3)
    between = {SINE: call([tensor(5.0)], [tensor(6.0)])}

    def run(extra: dict[str, Any], mask: Any, result: float) -> dict[str, Any]:
        first = {FIRST: call([tensor(1.0)], [own])}
        last = {LAST: call([mask], [tensor(result)]), BLOCK: module([tensor(1.0)], [tensor(result)])}
        return {**first, **extra, **between, **last}

    sides = [run({roll: call([own], [rolled])}, rolled, 4.5), run({}, own, 4.0)]
    names = origin_of(compared(tmp_path, sides[::-1] if turned else sides))
    assert names == ([None, roll] if turned else [roll, None])


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_the_call_before_an_operation_that_leaves_no_record_is_the_origin(tmp_path: Path, turned: bool) -> None:
    """``x /= x.sum()`` changes what ``topk`` has returned, and only ``sum`` is recorded."""
    sums = "Tensor.sum.0.forward"

    def run(extra: dict[str, Any], result: float) -> dict[str, Any]:
        return {FIRST: call([tensor(1.0)], [tensor(2.0)]), **extra, BLOCK: module([tensor(1.0)], [tensor(result)])}

    total = call([tensor(2.0)], [tensor(0.3, shape=(4, 1))])
    sides = [run({sums: total}, 3.0), run({}, 2.0)]
    names = origin_of(compared(tmp_path, sides[::-1] if turned else sides))
    assert names == ([None, sums] if turned else [sums, None])


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_module_that_one_side_leaves_out_is_named_as_a_whole(tmp_path: Path, turned: bool) -> None:
    norm = "Module.block.norm.Norm.forward.0"

    def run(extra: dict[str, Any], value: float, result: float) -> dict[str, Any]:
        last = {LAST: call([tensor(value)], [tensor(result)]), BLOCK: module([tensor(1.0)], [tensor(result)])}
        return {FIRST: call([tensor(1.0)], [tensor(2.0)]), **extra, **last}

    inside = {
        "Tensor.pow.0.forward": call([tensor(2.0)], [tensor(2.2)]),
        "Tensor.__mul__.0.forward": call([tensor(2.0), tensor(2.2)], [tensor(2.7)]),
        norm: module([tensor(2.0)], [tensor(2.7)]),
    }
    sides = [run(inside, 2.7, 4.5), run({}, 2.0, 4.0)]
    names = origin_of(compared(tmp_path, sides[::-1] if turned else sides, pow=norm, __mul__=norm))
    assert names == ([None, norm] if turned else [norm, None])


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_what_a_module_gets_may_show_the_origin_of_a_difference_inside(tmp_path: Path, turned: bool) -> None:
    """Inside, a view that leaves no record has changed shape and order of what ``roll`` made."""
    roll, inner = "Tensor.roll.0.forward", "Module.block.inner.Inner.forward.0"

    def run(extra: dict[str, Any], order: float, result: float) -> dict[str, Any]:
        mask, expanded = tensor(2.0, Projection=order), tensor(2.0, shape=(4, 4, 8), Projection=order / 3)
        return {
            FIRST: call([tensor(1.0)], [tensor(1.7)]),
            **extra,
            SINE: call([tensor(5.0)], [tensor(6.0)]),
            LAST: call([expanded], [tensor(result)]),
            inner: module([mask], [tensor(result)]),
            BLOCK: module([tensor(1.0)], [tensor(result)]),
        }

    rolled = {roll: call([tensor(2.0, Projection=0.7)], [tensor(2.0, Projection=-1.3)])}
    sides = [run(rolled, -1.3, 4.5), run({}, 0.7, 4.0)]
    comparison = compared(tmp_path, sides[::-1] if turned else sides, **{LAST: inner})
    assert origin_of(comparison) == ([None, roll] if turned else [roll, None])


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_an_earlier_call_that_makes_a_tensor_says_more_than_another_argument_of_its_user(
    tmp_path: Path, turned: bool
) -> None:
    roll = "Tensor.roll.0.forward"
    own, rolled = boolean(0.7), boolean(-1.3)

    def run(extra: dict[str, Any], mask: Any, fill: float, result: float) -> dict[str, Any]:
        last = {LAST: call([tensor(2.0), mask, number(fill)], [tensor(result)])}
        result_of_module = {BLOCK: module([tensor(1.0)], [tensor(result)])}
        return {FIRST: call([tensor(1.0)], [tensor(2.0)]), **extra, **last, **result_of_module}

    sides = [run({roll: call([own], [rolled])}, rolled, -1e9, 4.5), run({}, own, -1e4, 4.0)]
    names = origin_of(compared(tmp_path, sides[::-1] if turned else sides))
    assert names == ([None, roll] if turned else [roll, None])


def test_another_argument_is_named_where_no_earlier_call_made_the_tensors(tmp_path: Path) -> None:
    def run(fill: float, extra: dict[str, Any], mask: Any, result: float) -> dict[str, Any]:
        last = {LAST: call([tensor(2.0), mask, number(fill)], [tensor(result)])}
        result_of_module = {BLOCK: module([tensor(1.0)], [tensor(result)])}
        return {FIRST: call([tensor(1.0)], [tensor(2.0)]), **extra, **last, **result_of_module}

    cosine = {"Torch.cos.0.forward": call([tensor(5.0)], [tensor(6.0)])}
    comparison = compared(tmp_path, [run(-1e9, cosine, boolean(0.7), 4.5), run(-1e4, {}, boolean(0.7), 4.0)])
    assert origin_of(comparison) == [LAST, LAST]


def boolean(order: float) -> dict[str, Any]:
    """A tensor of truth values."""
    return {**tensor(1.0, dtype="bool", Projection=order), "Max": True, "Min": False, "Mean": None, "Norm": None}


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_mask_in_another_form_is_not_the_origin_of_another_wrong_value(tmp_path: Path, turned: bool) -> None:
    """The module that gets the mask returns something else, for a reason of its own."""
    where, inner = "Torch.where.0.forward", "Module.block.inner.Inner.forward.0"
    mask = boolean(0.7)
    numbers = {**tensor(1.0, Projection=2.2), "Max": 0.0, "Min": -3.4e38, "Mean": -1e38, "Norm": 1e39}

    def run(extra: dict[str, Any], given: Any, result: float) -> dict[str, Any]:
        first = {FIRST: call([tensor(1.0)], [tensor(2.0)]), "Tensor.__and__.0.forward": call([mask], [mask])}
        last = {inner: module([tensor(2.0), given], [tensor(result)]), BLOCK: module([tensor(1.0)], [tensor(result)])}
        return {**first, **extra, **last}

    sides = [run({where: call([mask], [numbers])}, numbers, 4.5), run({}, mask, 4.0)]
    comparison = compared(tmp_path, sides[::-1] if turned else sides)
    divergence = first_divergence(comparison)
    assert divergence is not None and comparison.table.entries[divergence.entry].name == inner
