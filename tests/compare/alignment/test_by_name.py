"""Recomputation does not shift, and neither does a call too many or too few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.alignment.by_name import ExactMatch, FuzzyMatch, SequenceMatch
from msprobe.compare.alignment.protocol import Side, Strategy
from msprobe.compare.alignment.sequence_alignment import weighted_subsequence
from tests.compare.alignment.sides import Data, named, pairs, side
from tests.compare.dumps import call, gradient, module, tensor


def test_an_extra_call_does_not_shift_the_others() -> None:
    golden = named("Torch.a.0.forward", "Torch.mul.0.forward", "Torch.b.0.forward", "Torch.mul.0.backward")
    target = named(
        "Torch.mul.0.forward",
        "Torch.a.0.forward",
        "Torch.mul.1.forward",
        "Torch.b.0.forward",
        "Torch.mul.1.backward",
    )
    found = pairs(SequenceMatch(), target, golden)
    assert ("Torch.mul.1.forward", "Torch.mul.0.forward") in found
    assert ("Torch.mul.1.backward", "Torch.mul.0.backward") in found


@pytest.mark.parametrize("strategy", [ExactMatch(), SequenceMatch(), FuzzyMatch()], ids=lambda s: type(s).__name__)
def test_backward_by_occurrence_where_numbers_differ(strategy: Strategy) -> None:
    found = pairs(strategy, named("Torch.x.1.backward"), named("Torch.x.0.backward"))
    assert found == [("Torch.x.1.backward", "Torch.x.0.backward")]


def test_the_backward_of_a_call_made_again_is_that_of_the_first() -> None:
    golden = named("Torch.x.0.forward", "Torch.y.0.forward", "Torch.y.0.backward", "Torch.x.0.backward")
    target = named(
        "Torch.x.0.forward", "Torch.y.0.forward", "Torch.y.0.backward", "Torch.x.1.forward", "Torch.x.1.backward"
    )
    assert pairs(SequenceMatch(), target, golden) == [
        ("Torch.x.0.forward", "Torch.x.0.forward"),
        ("Torch.x.1.backward", "Torch.x.0.backward"),
        ("Torch.y.0.backward", "Torch.y.0.backward"),
        ("Torch.y.0.forward", "Torch.y.0.forward"),
    ]


def _linears(scales: Sequence[float], shapes: Sequence[int] | None = None, *, drift: float = 0.0) -> Side:
    """Calls of one function in one module, told apart by their values or shapes alone."""
    sizes = shapes or [4] * len(scales)
    data: Data = {}
    for number, (scale, size) in enumerate(zip(scales, sizes, strict=True)):
        one = tensor(scale * (1 + drift), shape=(size, 8))
        data[f"Functional.linear.{number}.forward"] = call([one], [tensor(scale * (2 + drift), shape=(size, 8))])
    for number in reversed(range(len(scales))):
        name = f"Functional.linear.{number}.backward"
        data[name] = gradient([tensor(scales[number])], [tensor(3 * scales[number])])
    return side(data, dict.fromkeys(data, "Module.block.Block.forward.0"))


SCALES = [1.0, 1.7, 0.4, 5.0, 2.2, 3.1]


@pytest.mark.parametrize("strategy", [SequenceMatch(), FuzzyMatch()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("drift", [0.0, 1e-6, 1e-3], ids=["equal", "rounding", "drift"])
@pytest.mark.parametrize("gone", range(len(SCALES)))
def test_values_tell_which_call_one_side_skipped(strategy: Strategy, drift: float, gone: int) -> None:
    target = _linears([scale for at, scale in enumerate(SCALES) if at != gone], drift=drift)
    found = pairs(strategy, target, _linears(SCALES))
    kept = [at for at in range(len(SCALES)) if at != gone]
    for phase in ("forward", "backward"):
        wanted = {
            (f"Functional.linear.{new}.{phase}", f"Functional.linear.{old}.{phase}") for new, old in enumerate(kept)
        }
        assert wanted <= set(found)
    assert len(found) == 2 * len(kept)


@pytest.mark.parametrize("gone", range(4))
def test_values_that_differ_little_tell_which_call_one_side_skipped(gone: int) -> None:
    """The residual stream of neighbouring layers: each value differs by less than a thousandth from the one before."""
    scales = [1.0 + 3e-4 * at for at in range(4)]
    kept = [at for at in range(4) if at != gone]
    target = _linears([scales[at] for at in kept], drift=1e-6)
    found = pairs(SequenceMatch(), target, _linears(scales))
    wanted = {(f"Functional.linear.{new}.forward", f"Functional.linear.{old}.forward") for new, old in enumerate(kept)}
    assert wanted <= set(found)


def test_shapes_tell_which_call_one_side_skipped() -> None:
    golden = _linears([1.0] * 4, [2, 4, 8, 16])
    target = _linears([7.0] * 3, [2, 8, 16])
    assert [found for found in pairs(SequenceMatch(), target, golden) if "forward" in found[0]] == [
        ("Functional.linear.0.forward", "Functional.linear.0.forward"),
        ("Functional.linear.1.forward", "Functional.linear.2.forward"),
        ("Functional.linear.2.forward", "Functional.linear.3.forward"),
    ]


def test_checksums_tell_which_call_one_side_skipped() -> None:
    def digests(*values: str) -> Side:
        tensors = [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "md5": text} for text in values]
        return side({f"Torch.x.{at}.forward": call([one], [one]) for at, one in enumerate(tensors)})

    found = pairs(SequenceMatch(), digests("bb", "cc"), digests("aa", "bb", "cc"))
    assert found == [("Torch.x.0.forward", "Torch.x.1.forward"), ("Torch.x.1.forward", "Torch.x.2.forward")]


def test_a_skipped_dummy_step_does_not_shift_the_modules() -> None:
    def steps(*scales: float) -> Side:
        data: Data = {}
        construct: dict[str, Any] = {}
        for number, scale in enumerate(scales):
            parent = f"Module.net.Net.forward.{number}"
            inner = f"Functional.linear.{number}.forward"
            data[inner] = call([tensor(scale)], [tensor(2 * scale)])
            data[parent] = module([tensor(scale)], [tensor(2 * scale)])
            construct |= {inner: parent, parent: None}
        return side(data, construct)

    found = pairs(SequenceMatch(), steps(1.0, 2.0), steps(0.1, 1.0, 2.0))
    assert found == [
        ("Functional.linear.0.forward", "Functional.linear.1.forward"),
        ("Functional.linear.1.forward", "Functional.linear.2.forward"),
        ("Module.net.Net.forward.0", "Module.net.Net.forward.1"),
        ("Module.net.Net.forward.1", "Module.net.Net.forward.2"),
    ]


def test_functions_pair_by_name_when_no_module_has_the_same() -> None:
    """A wrapper that adds a level to every path, or a dump of functions alone."""

    def dump(prefix: str) -> Side:
        names = [f"Torch.{api}.0.forward" for api in "abcd"]
        return side({name: {} for name in names}, dict.fromkeys(names, f"Module.{prefix}net.Net.forward.0"))

    assert len(pairs(SequenceMatch(), dump("module."), dump(""))) == 4


@pytest.mark.parametrize("known", [True, False])
def test_a_call_of_an_optimizer_pairs_with_no_other_call(known: bool) -> None:
    """Where one side does not say which calls are those of an optimizer, as an older dump, they pair by name."""
    names = [f"Functional.linear.{number}.forward" for number in range(3)]
    data: Data = {name: {} for name in [*names, "Tensor.add_.0.forward", "Tensor.mul_.0.forward"]}
    optimizer = {"Tensor.mul_.0.forward": "optimizer"} if known else {}
    left = side(data, dict.fromkeys(names, "Module.a.A.forward.0") | optimizer)
    both = {"Tensor.add_.0.forward": "optimizer", "Tensor.mul_.0.forward": "optimizer"}
    right = side(data, dict.fromkeys(names, "Module.b.B.forward.0") | both)
    paired = {name for name, _ in pairs(SequenceMatch(), left, right)}
    assert paired == data.keys() - ({"Tensor.add_.0.forward"} if known else set())


def test_fuzzy_pairs_what_stands_in_another_order() -> None:
    names = "Torch.a.0.forward", "Torch.b.0.forward", "Torch.c.0.forward"
    assert len(pairs(FuzzyMatch(), named(*names), named(*reversed(names)))) == 3


@given(st.lists(st.sampled_from("abcd"), max_size=14), st.lists(st.sampled_from("abcd"), max_size=14))
def test_no_entry_is_paired_twice(left: list[str], right: list[str]) -> None:
    def dump(apis: list[str]) -> Side:
        return named(*(f"Torch.{api}.{apis[:at].count(api)}.forward" for at, api in enumerate(apis)))

    for strategy in (ExactMatch(), SequenceMatch(), FuzzyMatch()):
        found = pairs(strategy, dump(left), dump(right))
        for names in zip(*found, strict=True):
            assert len(set(names)) == len(names)
    assert len(found) == sum(min(left.count(api), right.count(api)) for api in "abcd")


def _length(left: list[int], right: list[int]) -> int:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_equal_weights_give_a_longest_common_subsequence(left: list[int], right: list[int]) -> None:
    others = np.array(right)
    found = weighted_subsequence(len(left), len(right), lambda i, a, b: np.array(others[a:b] == left[i], np.float64))
    assert len(found) == _length(left, right)
    assert all(left[i] == right[j] for i, j in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))


ODD = st.one_of(st.none(), st.text(max_size=3), st.booleans(), st.floats(), st.integers(), st.just(10**400))


@given(st.lists(st.tuples(ODD, ODD, st.lists(st.integers(0, 3), max_size=2)), max_size=6), st.integers(0, 5))
def test_odd_values_are_no_evidence_and_no_error(values: list[Any], gone: int) -> None:
    """Null, NaN, infinities, texts and numbers beyond floats in the statistics."""

    def dump(kept: list[Any]) -> Side:
        leaves = [tensor(shape=tuple(shape)) | {"Max": high, "Norm": norm} for high, norm, shape in kept]
        return side({f"Torch.x.{at}.forward": call([leaf], [leaf]) for at, leaf in enumerate(leaves)})

    left, right = dump(values[:gone] + values[gone + 1 :]), dump(values)
    for strategy in (SequenceMatch(), FuzzyMatch()):
        assert len(pairs(strategy, left, right)) == len(left.keys)


def test_the_greater_sum_wins_over_more_pairs() -> None:
    weights = np.array([[1.0, 5.0], [0.0, 1.0]])
    assert weighted_subsequence(2, 2, lambda i, a, b: weights[i, a:b]) == [(0, 1)]
