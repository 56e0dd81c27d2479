"""A fused layer is judged against its parts put together, and what could not be is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.compare.dumps import gradient, module, tensor, write

MAP = {"TopLayer": {"qkv": "q + k"}}
TURNED = {"TopLayer": {"q + k": "qkv"}}
Entry = dict[str, Any]


def _part(size: float, rows: int = 2, **more: Any) -> Entry:
    values = {"Max": size, "Min": -size, "Mean": size / 2, "Norm": size * 3}
    return tensor(shape=(rows, 4), **{**values, **more})


def _whole(*sizes: float, rows: int = 2, **more: Any) -> Entry:
    largest = max(sizes)
    norm = math.hypot(*(size * 3 for size in sizes))
    values = {"Max": largest, "Min": -largest, "Mean": sum(sizes) / len(sizes) / 2, "Norm": norm}
    return tensor(shape=(rows * len(sizes), 4), **{**values, **more})


def _layer(path: str, weight: Entry, grad: Entry, calls: int = 1) -> Entry:
    """Forward calls, backward calls and the gradient of one layer; outputs and their gradients are cut as weights are,
    along the last axis."""
    given = tensor(shape=(5, 3))

    def turned(raw: Entry) -> Entry:
        return {**raw, "shape": raw["shape"][::-1]}

    found: Entry = {}
    for call in range(calls):
        found[f"Module.{path}.L.forward.{call}"] = module([given], [turned(weight)], weight=weight)
        found[f"Module.{path}.L.backward.{call}"] = gradient([turned(grad)], [given])
    return {**found, f"Module.{path}.L.parameters_grad.0": {"weight": [grad]}}


def _whole_layer(weight: Entry | None = None, grad: Entry | None = None, calls: int = 1) -> Entry:
    return _layer("qkv", weight or _whole(1.0, 2.0), grad or _whole(0.1, 0.3), calls)


def _parts() -> Entry:
    return {**_layer("q", _part(1.0), _part(0.1)), **_layer("k", _part(2.0), _part(0.3))}


def _compared(folder: Path, whole: Entry, parts: Entry, *, turned: bool = False, **options: Any) -> CompareResult:
    task = options.pop("task", "statistics")
    fused, split = write(folder / "fused", whole, task=task), write(folder / "split", parts, task=task)
    sides = (split, fused) if turned else (fused, split)
    return msprobe.compare(*sides, layer_mapping=TURNED if turned else MAP, **options)


@pytest.mark.parametrize("turned", [False, True], ids=["fused_target", "fused_golden"])
def test_parts_that_make_the_whole_agree(tmp_path: Path, turned: bool) -> None:
    result = _compared(tmp_path, _whole_layer(), _parts(), turned=turned)
    assert result.verdict == "same" and not result.summary.incomplete
    rows = {(row.golden if turned else row.target): row for row in result.rows()}
    paired = rows["Module.qkv.L.forward.0.parameters.weight"]
    names = "Module.q.L.forward.0.parameters.weight + Module.k.L.forward.0.parameters.weight"
    assert (paired.target if turned else paired.golden, paired.level) == (names, "pass")
    assert result.summary.counts.pairs == 5  # input, weight, output, gradient of the output, gradient of the weight


@pytest.mark.parametrize("turned", [False, True], ids=["fused_target", "fused_golden"])
@pytest.mark.parametrize("place", ["weight", "grad"])
def test_a_fault_inside_the_whole_is_named(tmp_path: Path, place: str, turned: bool) -> None:
    fault = {"weight": _whole(1.0, 3.0)} if place == "weight" else {"grad": _whole(0.2, 0.6)}
    found = _compared(tmp_path, _whole_layer(**fault), _parts(), turned=turned).summary.first_divergence
    assert found is not None and found.kind == "value"
    phase = "forward" if place == "weight" else "backward"
    sides = (found.golden, found.target) if turned else (found.target, found.golden)
    assert sides == (f"Module.qkv.L.{phase}.0", f"Module.q.L.{phase}.0")
    assert f"Module.q.L.{phase}.0" in found.reason and f" + Module.k.L.{phase}.0" in found.reason


def test_weights_that_do_not_add_up_differ_in_shape(tmp_path: Path) -> None:
    found = _compared(tmp_path, _whole_layer(_whole(1.0, 2.0, rows=3)), _parts()).summary.first_divergence
    assert found is not None and (found.kind, found.slot) == ("shape", "parameters.weight")


def test_a_whole_without_values_is_no_pass(tmp_path: Path) -> None:
    lost = dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    result = _compared(tmp_path, _whole_layer(_whole(1.0, 2.0, **lost)), _parts())
    (row,) = (row for row in result.rows() if row.target == "Module.qkv.L.forward.0.parameters.weight")
    assert row.level != "pass"


def test_the_order_of_elements_is_no_matter_of_parts(tmp_path: Path) -> None:
    """A projection depends on where an element stands; those of parts say nothing about that of the whole."""
    whole = _whole_layer(_whole(1.0, 2.0, Projection=5.0))
    parts = {**_layer("q", _part(1.0, Projection=1.0), _part(0.1)), **_layer("k", _part(2.0), _part(0.3))}
    result = _compared(tmp_path, whole, parts)
    assert result.verdict == "same" and "Projection" not in result.summary.reason


def test_whole_tensors_of_parts_are_judged_by_their_statistics(tmp_path: Path) -> None:
    whole = _whole_layer(_whole(1.0, 3.0, data_name="w.pt"))
    found = _compared(tmp_path, whole, _parts(), task="tensor").summary.first_divergence
    assert found is not None and (found.kind, found.slot) == ("value", "parameters.weight")


@pytest.mark.parametrize(
    ("whole", "options", "reason"),
    [
        pytest.param(_whole_layer(calls=2), {}, "not called equally often", id="calls"),
        pytest.param(_whole_layer(), {"policy": "reference"}, "published rules", id="reference"),
        pytest.param(_whole_layer(_whole(1.0, 2.0, md5="1a")), {}, "checksum of a whole", id="checksum"),
    ],
)
def test_a_whole_that_cannot_be_judged_is_told(
    tmp_path: Path, whole: Entry, options: dict[str, Any], reason: str
) -> None:
    parts, both = _parts(), _layer("out", _part(1.0), _part(0.5))
    if "checksum" in reason:
        parts["Module.q.L.forward.0"]["parameters"]["weight"]["md5"] = "2b"
        both = _layer("out", _part(1.0, md5="3c"), _part(0.5, md5="4d"))
    result = _compared(tmp_path, {**whole, **both}, {**parts, **both}, **options)
    (line,) = result.summary.incomplete
    assert reason in line and "qkv = q + k" in line
    assert line in result.summary.reason


@pytest.mark.parametrize(
    "damage",
    [{"shape": None}, {"shape": [None, 4]}, {"Max": "many"}, {"dtype": None}],
    ids=["no_shape", "no_length", "text", "no_dtype"],
)
def test_a_damaged_part_raises_nothing(tmp_path: Path, damage: Entry) -> None:
    parts = _parts()
    parts["Module.k.L.forward.0"]["parameters"]["weight"] |= damage
    assert _compared(tmp_path, _whole_layer(), parts).verdict == "diverged"
