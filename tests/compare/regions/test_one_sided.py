"""Calls that only one side makes: values decide what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.comparison import Comparison, compare_dumps
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.records.entries import Absence
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, gradient, module, tensor, write

BLOCK = "Module.block.Block.forward.0"
FIRST, LAST = "Functional.linear.0.forward", "Functional.linear.1.forward"
MUL, DIV, ADD = "Tensor.__mul__.0.forward", "Tensor.__truediv__.0.forward", "Tensor.__add__.0.forward"


def compared(
    folder: Path, target: dict[str, Any], golden: dict[str, Any], policy: Policy = Policy.DEFAULT, **parents: Any
) -> Comparison:
    dumps = []
    for side, data in (("t", target), ("g", golden)):
        inside = {name: BLOCK for name in data if name not in (BLOCK, *parents.get("outside", ()))}
        write(folder / side, data, {**inside, BLOCK: None})
        dumps.append(load_dump(find_dumps(folder / side)[0]))
    return compare_dumps(*dumps, policy)


def run(*between: tuple[str, dict[str, Any]], last: float = 3.0, end: float = 4.0) -> dict[str, Any]:
    """Return a block that calls two layers, with other calls between them."""
    return {
        FIRST: call([tensor(1.0)], [tensor(2.0)]),
        **dict(between),
        LAST: call([tensor(last)], [tensor(end)]),
        BLOCK: module([tensor(1.0)], [tensor(end)]),
    }


def absences(comparison: Comparison) -> dict[str, Absence | None]:
    return {pair.name: pair.absence for pair in comparison.table.entries if None in pair[:2]}


HALVED = (MUL, call([tensor(2.0)], [tensor(3.0)]))
DIVIDED = (DIV, call([tensor(2.0)], [tensor(3.0)]))


def test_other_calls_with_the_same_result_are_other_code(tmp_path: Path) -> None:
    comparison = compared(tmp_path, run(DIVIDED), run(HALVED))
    assert not comparison.row_levels.diverging.any()
    assert absences(comparison) == {DIV: Absence.OTHER_CODE, MUL: Absence.OTHER_CODE}


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_the_call_that_makes_the_first_wrong_value_is_the_origin(tmp_path: Path, turned: bool) -> None:
    wrong = run(DIVIDED, (ADD, call([tensor(3.0)], [tensor(3.5)])), last=3.5, end=4.5)
    sides = (run(HALVED), wrong) if turned else (wrong, run(HALVED))
    comparison = compared(tmp_path, *sides)
    found = first_divergence(comparison)
    assert found is not None and comparison.table.entries[found.entry].name == LAST
    assert [found.description.target, found.description.golden] == ([None, ADD] if turned else [ADD, None])


def test_calls_of_both_sides_that_stand_for_each_other_are_both_named(tmp_path: Path) -> None:
    other = (DIV, call([tensor(2.0)], [tensor(3.5)]))
    comparison = compared(tmp_path, run(other, last=3.5, end=4.5), run(HALVED))
    found = first_divergence(comparison)
    assert found is not None and [found.description.target, found.description.golden] == [DIV, MUL]


def test_a_call_that_nothing_follows_is_not_shown(tmp_path: Path) -> None:
    longer = {**run(HALVED), ADD: call([tensor(4.0)], [tensor(5.0)])}
    comparison = compared(tmp_path, longer, run(HALVED), outside=(ADD,))
    assert absences(comparison) == {ADD: Absence.NOT_SHOWN}


def test_a_lost_gradient_is_a_divergence(tmp_path: Path) -> None:
    backward = {"Functional.linear.0.backward": gradient([tensor(1.0)], [tensor(1.0)])}
    data = {FIRST: call([tensor(1.0)], [tensor(2.0)])}
    comparison = compared(tmp_path, data, {**data, **backward}, outside=(FIRST, *backward))
    assert absences(comparison) == {"Functional.linear.0.backward": None}
    assert comparison.row_levels.diverging.any()


def test_the_gradient_of_a_call_of_one_side_belongs_to_that_call(tmp_path: Path) -> None:
    backward = {"Tensor.__mul__.0.backward": gradient([tensor(1.0)], [tensor(1.0)])}
    comparison = compared(tmp_path, run(DIVIDED), {**run(HALVED), **backward}, outside=tuple(backward))
    assert not comparison.row_levels.diverging.any()


@pytest.mark.parametrize(
    ("gradient_of_target", "absence"), [(3.0, Absence.OTHER_CODE), (6.0, Absence.NOT_SHOWN)], ids=["equal", "doubled"]
)
def test_the_gradients_of_a_renamed_module_are_shown_by_equal_ones(
    tmp_path: Path, gradient_of_target: float, absence: Absence
) -> None:
    sides = []
    for path, scale in (("own", gradient_of_target), ("other", 3.0)):
        renamed = f"Module.{path}.Linear.forward.0", module([tensor(2.0)], [tensor(3.0)])
        gradients = {f"Module.{path}.Linear.parameters_grad": {"weight": [tensor(scale)]}}
        sides.append({**run(renamed), **gradients})
    comparison = compared(tmp_path, sides[0], sides[1])
    assert absences(comparison) == {
        "Module.own.Linear.forward.0": Absence.OTHER_CODE,
        "Module.other.Linear.forward.0": Absence.OTHER_CODE,
        "Module.own.Linear.parameters_grad": absence,
        "Module.other.Linear.parameters_grad": absence,
    }


@pytest.mark.parametrize("name", ["Module.gate.Linear.forward.0", "Distributed.all_reduce.0.forward"])
def test_a_module_or_collective_that_nothing_shows_is_lost(tmp_path: Path, name: str) -> None:
    longer = {**run(HALVED), name: call([tensor(7.0)], [tensor(8.0)])}
    assert absences(compared(tmp_path, longer, run(HALVED), outside=(name,))) == {name: None}


def test_a_missing_update_is_lost(tmp_path: Path) -> None:
    update = {"Tensor.add_.0.forward": call([tensor(7.0)], [tensor(8.0)])}
    for side, data in (("t", run(HALVED)), ("g", {**run(HALVED), **update})):
        write(tmp_path / side, data, {"Tensor.add_.0.forward": "optimizer", BLOCK: None})
    dumps = [load_dump(find_dumps(tmp_path / side)[0]) for side in "tg"]
    assert absences(compare_dumps(dumps[0], dumps[1])) == {"Tensor.add_.0.forward": None}


def test_the_reference_policy_takes_every_such_call_for_a_difference(tmp_path: Path) -> None:
    comparison = compared(tmp_path, run(DIVIDED), run(HALVED), Policy.REFERENCE)
    assert set(absences(comparison).values()) == {None}


@pytest.mark.parametrize(("averaged", "absence"), [(9.0, Absence.NOT_SHOWN), (8.0, None)], ids=["equal", "other"])
def test_state_that_both_sides_change_with_other_values_is_a_divergence(
    tmp_path: Path, averaged: float, absence: Absence | None
) -> None:
    """The average of the weights is updated before the step on one side, and after it on the other."""
    average, between = "Tensor.add_.0.forward", "Tensor.cos.0.forward"
    data, step = run(HALVED), {between: call([tensor(4.0)], [tensor(5.0)])}
    before = {**data, average: call([tensor(7.0)], [tensor(averaged)]), **step}
    after = {**data, **step, average: call([tensor(7.5 if averaged != 9.0 else 7.0)], [tensor(9.0)])}
    comparison = compared(tmp_path, before, after, outside=(average, between))
    found = {pair.golden: pair.absence for pair in comparison.table.entries if pair.target is None}
    assert found in ({average: absence}, {})
    assert comparison.row_levels.diverging.any() == (absence is None)


@pytest.mark.parametrize(("averaged", "absence"), [(9.0, Absence.NOT_SHOWN), (8.0, None)], ids=["equal", "other"])
def test_averages_of_fused_parameters_are_compared_together(
    tmp_path: Path, averaged: float, absence: Absence | None
) -> None:
    """One average of both weights, before the step, against two after it."""
    between = "Tensor.cos.0.forward"
    data, step = run(HALVED), {between: call([tensor(4.0)], [tensor(5.0)])}
    both = {
        "Tensor.mul_.0.forward": call(
            [tensor(7.0, shape=(8, 8), Norm=49.49747468)], [tensor(averaged, shape=(8, 8), Norm=7.07106781 * averaged)]
        )
    }
    each = {f"Tensor.mul_.{one}.forward": call([tensor(7.0)], [tensor(9.0)]) for one in range(2)}
    names = (*each, between)
    comparison = compared(tmp_path, {**data, **both, **step}, {**data, **step, **each}, outside=names)
    assert {pair.absence for pair in comparison.table.entries if pair.target is None} == {absence}
    assert comparison.row_levels.diverging.any() == (absence is None)


@pytest.mark.parametrize(
    ("shape", "absence"), [((4, 8), Absence.NOT_SHOWN), ((8, 8), None)], ids=["of data", "of a parameter"]
)
def test_what_is_changed_in_place_is_state_where_a_parameter_has_its_shape(
    tmp_path: Path, shape: tuple[int, ...], absence: Absence | None
) -> None:
    """Both sides write data for the next step in place, behind the update of a weight; or an average of it."""
    layer, between, last = "Module.head.Linear.forward.0", "Tensor.cos.0.forward", "Tensor.add_.1.forward"
    weight = tensor(2.0, shape=(8, 8))
    data = {**run(HALVED), layer: module([tensor(4.0)], [tensor(6.0)], weight=weight)}
    update = {"Tensor.add_.0.forward": call([weight], [tensor(2.1, shape=(8, 8))])}
    step = {between: call([tensor(6.0)], [tensor(5.0)])}
    golden = {**data, **update, **step, last: call([tensor(7.0, shape=shape)], [tensor(9.0, shape=shape)])}
    target = {**data, **update, last: call([tensor(7.0, shape=shape)], [tensor(8.0, shape=shape)]), **step}
    comparison = compared(tmp_path, target, golden, outside=(layer, *update, between, last))
    assert {pair.absence for pair in comparison.table.entries if pair.target is None} == {absence}


@pytest.mark.parametrize(("result", "lost"), [(6.0, False), (6.5, True)])
def test_a_function_with_the_result_of_a_module_replaces_it(tmp_path: Path, result: float, lost: bool) -> None:
    """The head of a model as a module, and as a function of its weight; what comes after it begins with a slice."""
    head, function = "Module.head.Linear.forward.0", "Functional.linear.2.forward"
    golden = {**run(), head: module([tensor(4.0)], [tensor(6.0)], weight=tensor())}
    target = {**run(), function: call([tensor(4.0), tensor()], [tensor(result)])}
    later = {"Functional.cross_entropy.0.forward": call([tensor(9.0)], [tensor(2.0)])}
    outside = (head, function, *later)
    for sides in ((target, golden), (golden, target)):
        comparison = compared(tmp_path, {**sides[0], **later}, {**sides[1], **later}, outside=outside)
        assert bool(comparison.row_levels.diverging.any()) == lost


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wrapper", ["module", "module._orig_mod"])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_wrapper_around_the_model_changes_no_names(tmp_path: Path, turned: bool, wrapper: str, wrong: bool) -> None:
    def run(path: str, second: float) -> dict[str, Any]:
        names = [f"Module.{path}{name}.Linear.forward.0" for name in ("first", "second", "third")]
        values = (1.0, 2.0, second, 5.0)
        return {name: module([tensor(values[i])], [tensor(values[i + 1])]) for i, name in enumerate(names)}

    whole = f"Module.{wrapper}.Model.forward.0"
    inside = run(f"{wrapper}.", 3.5 if wrong else 3.0)
    sides = [{**inside, whole: module([tensor(1.0)], [tensor(5.0)])}, run("", 3.0)]
    dumps = []
    for side, data in enumerate(sides):
        write(tmp_path / str(side), data, {name: None if side or name == whole else whole for name in data})
        dumps.append(load_dump(find_dumps(tmp_path / str(side))[0]))
    comparison = compare_dumps(*(dumps[::-1] if turned else dumps))
    diverging = [comparison.table.entries[number] for number in comparison.row_levels.diverging.nonzero()[0]]
    assert [pair.of_both for pair in comparison.table.entries].count(True) == 3
    assert [pair.name.split(".")[-4] for pair in diverging[:1]] == (["second"] if wrong else [])
