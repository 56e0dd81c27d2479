"""What another tool records differently; whole recordings of it are in ``tests/reference_dumps``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from tests.compare.dumps import call, tensor, write

FORWARD, BACKWARD = "Functional.linear.0.forward", "Functional.linear.0.backward"
X, W, B = tensor(0.5, shape=(4, 3)), tensor(0.7, shape=(2, 3)), tensor(0.9, shape=(2,))


def summary_of(
    tmp_path: Path, own: dict[str, Any], theirs: dict[str, Any], *, turned: bool = False, process: str = ""
) -> CompareSummary:
    """Compare a dump of msprobe with one of another tool; ``turned`` makes msprobe's the golden run."""
    ours, others = write(tmp_path / "own" / process, own), write(tmp_path / "others" / process, theirs)
    document = json.loads((ours / "dump.json").read_text())
    (ours / "dump.json").write_text(json.dumps({**document, "written_by": {"name": "msprobe", "version": "1"}}))
    sides = (others, ours) if turned else (ours, others)
    return msprobe.compare(*sides, output=tmp_path / "out").summary


def linear(outputs: list[Any], **grad: bool) -> dict[str, Any]:
    """Return forward and backward of a linear layer with these gradients of its input, weight and bias."""
    inputs = [{**one, "requires_grad": True} for one in (X, W, B)]
    inputs[0]["requires_grad"] = grad.get("grad", True)
    return {
        FORWARD: call(inputs, [tensor(2.0, shape=(4, 2))]),
        BACKWARD: {"input": [tensor(1.0, shape=(4, 2))], "output": outputs},
    }


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_in_the_order_of_the_node_are_the_same(tmp_path: Path, turned: bool) -> None:
    theirs = linear([B, X, {**W, "shape": [3, 2]}])
    summary = summary_of(tmp_path, linear([X, W, B]), theirs, turned=turned)
    assert (summary.verdict, summary.counts.passed, summary.counts.warning) == ("same", 8, 0)


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_another_operation_are_a_note(tmp_path: Path, turned: bool) -> None:
    summary = summary_of(tmp_path, linear([X, W, B]), linear([tensor(3.0, shape=(4, 2))]), turned=turned)
    assert (summary.verdict, summary.incomplete) == ("same", [])
    assert "gradients in backward calls of functions (it writes those of an autograd node): 4" in (summary.reason or "")


@pytest.mark.parametrize("turned", [False, True])
def test_a_gradient_that_the_forward_call_denies_is_a_divergence(tmp_path: Path, turned: bool) -> None:
    detached = linear([B, None, {**W, "shape": [3, 2]}], grad=False)
    first = summary_of(tmp_path, linear([X, W, B]), detached, turned=turned).first_divergence
    assert first is not None
    assert first.target == BACKWARD


def test_a_backward_call_that_only_the_other_tool_has_is_a_divergence(tmp_path: Path) -> None:
    theirs = linear([B, X, W])
    assert summary_of(tmp_path, {FORWARD: theirs[FORWARD]}, theirs).verdict == "diverged"
    assert summary_of(tmp_path, theirs, {FORWARD: theirs[FORWARD]}).verdict == "same"


def test_a_wrong_argument_is_no_matter_of_recording(tmp_path: Path) -> None:
    own, theirs = (
        {"Torch.add.0.forward": call([tensor(), argument], [tensor()])}
        for argument in ({"type": "float", "value": 0.5}, None)
    )
    assert summary_of(tmp_path, own, theirs).verdict == "diverged"


def test_two_dumps_without_a_mark_are_judged_as_ever(tmp_path: Path) -> None:
    sides = (write(tmp_path / name, linear(one)) for name, one in (("a", [X, W, B]), ("b", [B, X, W])))
    assert msprobe.compare(*sides, output=tmp_path / "out").summary.verdict == "diverged"


@pytest.mark.parametrize("value", [1.5, -2.0])
def test_the_norm_of_one_number_has_no_sign(tmp_path: Path, value: float) -> None:
    numbers = {"Max": value, "Min": value, "Mean": value}
    own, theirs = (
        {"Torch.sum.0.forward": call([tensor()], [{**tensor(shape=()), **numbers, "Norm": norm}])}
        for norm in (abs(value), value)
    )
    summary = summary_of(tmp_path, own, theirs)
    assert (summary.verdict, summary.counts.passed) == ("same", 2)


def test_a_sum_of_gradients_is_compared_by_its_mean(tmp_path: Path) -> None:
    def dump(second: dict[str, Any]) -> dict[str, Any]:
        forward = {f"Module.fc.Linear.forward.{number}": call([tensor()], [tensor()]) for number in (0, 1)}
        name = "Module.fc.Linear.parameters_grad"
        return {**forward, f"{name}.0": {"weight": [gradient(0.25)]}, f"{name}.1": {"weight": [second]}}

    def gradient(mean: float) -> dict[str, Any]:
        return {**tensor(4 * mean), "Mean": mean}

    assert summary_of(tmp_path, dump(gradient(0.5)), dump(gradient(0.75))).verdict == "same"
    assert summary_of(tmp_path, dump(gradient(0.5)), dump(gradient(0.9))).verdict == "diverged"
    of_a_rank = summary_of(tmp_path, dump(gradient(0.5)), dump(gradient(0.9)), process="rank0")
    assert of_a_rank.verdict == "same"  # the ranks may have averaged what was there before
    assert "(it writes the sum so far): 1" in (of_a_rank.reason or "")
