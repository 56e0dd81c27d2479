"""Recorded comparison of two Megatron checkpoints: every recorded parameter must come out as recorded.

Departures on purpose: a parameter that one side lacks is in the result, where the record leaves it out; a cosine is
never above 1, where the record has 1.0000001 for equal tensors; no package named `megatron` is needed, and the order is
that of the checkpoint and not of a set.
"""

import json
from pathlib import Path

import pytest

from msprobe.checkpoints.job import compare_checkpoints

CASE = Path(__file__).parent / "26_ckpt_compare"
RECORDED = json.loads((CASE / "expected_ckpt_similarity.json").read_text())

pytestmark = pytest.mark.torch


def test_parameters_are_as_recorded() -> None:
    found = compare_checkpoints(CASE / "ck1", CASE / "ck2").document()
    assert {name for name in found if name not in RECORDED} == {"only2.weight"}
    for name, recorded in RECORDED.items():
        assert [key for key in found[name] if key != "relation"] == list(recorded)  # a key of msprobe's own
        assert (found[name]["numel"], found[name]["shape"]) == (recorded["numel"], recorded["shape"])
        for key in ("l2", "cos"):
            wanted = recorded[key]
            assert found[name][key] == (None if wanted is None else pytest.approx(wanted, rel=1e-6))


def test_a_cosine_is_never_above_one() -> None:
    name = "decoder.layers.0.mlp.linear_fc1.weight"
    assert RECORDED[name]["cos"] > 1.0
    assert compare_checkpoints(CASE / "ck1", CASE / "ck2").document()[name]["cos"] == 1.0


def test_what_one_side_lacks_is_in_the_result() -> None:
    comparison = compare_checkpoints(CASE / "ck1", CASE / "ck2")
    missing = {"l2": None, "cos": None, "numel": [None, 2], "shape": [None, [2]]}
    assert comparison.document()["only2.weight"] == missing
    assert not comparison.same
    assert any("only2.weight: only in the second" in line for line in comparison.lines())


def test_the_order_is_that_of_the_checkpoints() -> None:
    names = ["embedding.word_embeddings.weight", "decoder.layers.0.mlp.linear_fc1.weight", "final.weight"]
    assert list(compare_checkpoints(CASE / "ck1", CASE / "ck2").document()) == [*names, "only2.weight"]
    backwards = compare_checkpoints(CASE / "ck2", CASE / "ck1")
    assert list(backwards.document()) == [*names, "only2.weight"]
    assert [one.kind for one in backwards.parameters][-1] == "first_only"
