"""The first entry that is wrong by itself, on small dumps with one planted difference each."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.store.record_walk import leaves
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, gradient, module, number, tensor, write

NORM, ADD, LINEAR = "Functional.layer_norm.0.forward", "Tensor.__add__.0.forward", "Functional.linear.0.forward"
M_NORM, M_FC, BLOCK = "Module.b.norm.LayerNorm.forward.0", "Module.b.fc.Linear.forward.0", "Module.b.Block.forward.0"
CONSTRUCT = {
    NORM: M_NORM,
    M_NORM: BLOCK,
    LINEAR: M_FC,
    M_FC: BLOCK,
    ADD: BLOCK,
    BLOCK: None,
    "Functional.linear.0.backward": "Module.b.fc.Linear.backward.0",
    "Module.b.fc.Linear.backward.0": "Module.b.Block.backward.0",
    "Tensor.__add__.0.backward": "Module.b.Block.backward.0",
    "Module.b.Block.backward.0": None,
}


def run() -> dict[str, Any]:
    """A block: y = x + fc(norm(x)), forward and backward."""
    x, n, f, y = tensor(1.0), tensor(1.3), tensor(0.7), tensor(1.9)
    weight, g, h, k = tensor(0.4, shape=(8, 8)), tensor(0.01), tensor(0.02), tensor(0.03)
    data = {
        NORM: call([x, number(1e-5)], [n]),
        M_NORM: module([x], [n]),
        LINEAR: call([n, weight], [f]),
        M_FC: module([n], [f], weight=weight),
        ADD: call([x, f], [y], alpha=number(1)),
        BLOCK: module([x], [y]),
        "Tensor.__add__.0.backward": gradient([g], [g, g]),
        "Functional.linear.0.backward": gradient([g], [h, k]),
        "Module.b.fc.Linear.backward.0": gradient([g], [h]),
        "Module.b.fc.Linear.parameters_grad.0": {"weight": [k]},
        "Module.b.Block.backward.0": gradient([g], [g]),
    }
    return json.loads(json.dumps(data))  # no leaf is shared between places


def scale(data: dict[str, Any], names: list[tuple[str, str]], factor: float) -> None:
    """Scale the statistics of these (entry, ``section.index``) leaves."""
    for name, place in names:
        section, _, index = place.partition(".")
        node = data[name][section]
        leaf = node[int(index)] if isinstance(node, list) else node[index]
        leaf = leaf[0] if isinstance(leaf, list) else leaf
        leaf.update({key: leaf[key] * factor for key in ("Max", "Min", "Mean", "Norm")})


def find(tmp_path: Path, target: dict[str, Any], golden: dict[str, Any] | None = None, **sides: Any) -> Any:
    left = write(tmp_path / "t/step0/rank0", target, sides.get("construct", CONSTRUCT), {NORM: ["File a.py, line 3"]})
    right = write(tmp_path / "g/step0/rank0", golden or run(), CONSTRUCT)
    return compare(left, right).summary


DOWN = [(LINEAR, "output.0"), (M_FC, "output.0"), (ADD, "input_args.1"), (ADD, "output.0"), (BLOCK, "output.0")]


def test_equal_runs_are_the_same(tmp_path: Path) -> None:
    summary = find(tmp_path, run())
    assert summary.verdict == "same" and summary.first_divergence is None
    assert summary.counts.pairs == summary.counts.passed > 0


@pytest.mark.parametrize("factor", [1.001, 2.0])
def test_wrong_result_names_the_call_and_its_module(tmp_path: Path, factor: float) -> None:
    target = run()
    scale(target, DOWN, factor)
    found = find(tmp_path, target).first_divergence
    assert (found.target, found.slot, found.kind, found.module) == (LINEAR, "output.0", "value", "b.fc.Linear")
    assert (found.step, found.rank) == (0, 0)


def test_rounding_noise_is_the_same(tmp_path: Path) -> None:
    target = run()
    scale(target, DOWN, 1 + 2e-7)
    assert find(tmp_path, target).verdict == "same"


def test_wrong_weight_names_the_owner(tmp_path: Path) -> None:
    target = run()
    scale(target, [(LINEAR, "input_args.1"), (M_FC, "parameters.weight"), *DOWN], 1.5)
    found = find(tmp_path, target).first_divergence
    assert (found.target, found.slot, found.kind) == (M_FC, "parameters.weight", "value")
    assert found.module == "b.fc.Linear"


def test_scalar_argument(tmp_path: Path) -> None:
    target = run()
    target[NORM]["input_args"][1] = number(1e-3)
    found = find(tmp_path, target).first_divergence
    assert (found.target, found.slot, found.kind) == (NORM, "input.1", "argument")
    assert found.stack == ["File a.py, line 3"]


def test_nan_is_non_finite(tmp_path: Path) -> None:
    target = run()
    target[LINEAR]["output"][0].update(Max=float("nan"), Min=float("nan"), Mean=float("nan"), Norm=float("nan"))
    assert find(tmp_path, target).first_divergence.kind == "non_finite"


def test_null_gradient_is_missing(tmp_path: Path) -> None:
    target = run()
    target["Tensor.__add__.0.backward"]["output"][1] = None
    layer = "Module.b.fc.Linear"
    for lost in ("Functional.linear.0.backward", f"{layer}.backward.0", f"{layer}.parameters_grad.0"):
        del target[lost]
    found = find(tmp_path, target).first_divergence
    assert (found.target, found.slot, found.kind) == ("Tensor.__add__.0.backward", "output.1", "missing_in_target")
    assert found.module == "b.Block"


def test_wrong_backward(tmp_path: Path) -> None:
    target = run()
    wrong = [("Functional.linear.0.backward", "output.1"), ("Module.b.fc.Linear.parameters_grad.0", "weight.0")]
    scale(target, wrong, 1.1)
    found = find(tmp_path, target).first_divergence
    assert (found.target, found.slot) == ("Functional.linear.0.backward", "output.1")


def test_unrecorded_code_is_blamed_on_the_enclosing_module(tmp_path: Path) -> None:
    target = run()
    scale(target, [(LINEAR, "input_args.0"), (M_FC, "input_args.0"), *DOWN], 1.2)
    found = find(tmp_path, target).first_divergence
    assert found.target == M_FC and found.slot == "input.0" and found.module == "b.Block"
    assert "the target gives it a value that no recorded call returns" in found.reason


def test_an_extra_call_before_values_that_agree_is_other_code(tmp_path: Path) -> None:
    target = run()
    extra = {"Tensor.__add__.0.forward": call([tensor(1.3), number(0.5)], [tensor(1.3)])}
    entries = {NORM: target[NORM], M_NORM: target[M_NORM], **extra, LINEAR: target[LINEAR], M_FC: target[M_FC]}
    entries["Tensor.__add__.1.forward"] = target[ADD]
    entries[BLOCK] = target[BLOCK]
    construct = {**CONSTRUCT, "Tensor.__add__.0.forward": M_FC, "Tensor.__add__.1.forward": BLOCK}
    golden = {name: body for name, body in run().items() if "backward" not in name and "grad" not in name}
    summary = find(tmp_path, entries, golden, construct=construct)
    assert summary.verdict == "same" and "the code differs" in summary.reason
    assert summary.counts.error == 0 and summary.counts.target_only == 3


def test_recomputation_on_one_side_is_the_same(tmp_path: Path) -> None:
    target = run()
    again = copy.deepcopy(target[LINEAR]) | {"is_recompute": True}
    names = list(target)
    at = names.index("Functional.linear.0.backward")
    entries = {name: target[name] for name in names[:at]} | {"Functional.linear.1.forward": again}
    entries["Functional.linear.1.backward"] = target["Functional.linear.0.backward"]
    entries |= {name: target[name] for name in names[at + 1 :]}
    summary = find(tmp_path, entries)
    assert summary.verdict == "same", summary.first_divergence
    assert (summary.counts.target_only, summary.counts.golden_only) == (len(leaves(LINEAR, again)), 0)
    assert not summary.incomplete


def test_the_earlier_step_wins(tmp_path: Path) -> None:
    for step, factor in ((0, 1.0), (1, 1.5), (2, 3.0)):
        target = run()
        scale(target, DOWN, factor)
        write(tmp_path / f"t/step{step}/rank0", target, CONSTRUCT)
        write(tmp_path / f"g/step{step}/proc7", run(), CONSTRUCT)
    summary = compare(tmp_path / "t", tmp_path / "g").summary
    assert summary.first_divergence is not None and summary.first_divergence.step == 1
