"""What is measured of tensors of every kind, by the host and by operators, against numpy in float64."""

from __future__ import annotations

import math
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor

from msprobe.adapters.mindspore.monitor import meter as meters
from msprobe.adapters.mindspore.tensors.reductions import DeferredStatistics
from msprobe.monitor.statistics import STATISTICS, needs_of, values_of

NAMES = tuple(one.name for one in STATISTICS)
DRAW = np.random.default_rng(5).normal
ARRAYS = {
    "float32": DRAW(size=(5, 7)).astype(np.float32),
    "float16": DRAW(size=100).astype(np.float16),
    "float64": DRAW(size=100),
    "int32": np.arange(-3, 9, dtype=np.int32),
    "zeros": np.zeros(4, np.float32),
    "one": np.array(2.5, np.float32),
}


def measure(tensor: Any, names: tuple[str, ...] = NAMES, meter: Any = None) -> dict[str, Any]:
    meter = meter or meters.MindSporeMeter(1e-8)
    node = meter.measure(tensor, needs_of(names))
    meter.settle()
    return dict(zip(names, values_of(node, names), strict=True))


def on_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a meter that uses operators, as on a device; here they are those of the CPU."""
    meter = meters.MindSporeMeter(1e-8)
    monkeypatch.setattr(meter, "_on_host", False)
    monkeypatch.setattr(meter._ops, "_device", DeferredStatistics("high"))
    monkeypatch.setattr(meter._ops, "_in_place", False)
    return meter


def check(found: dict[str, Any], exact: Any, tolerance: float) -> None:
    assert (found["min"], found["max"]) == (exact.min(), exact.max())
    assert found["mean"] == pytest.approx(exact.mean(), rel=tolerance, abs=1e-8)
    assert found["norm"] == pytest.approx(np.linalg.norm(exact), rel=tolerance)
    assert found["zeros"] == np.mean(np.abs(exact) < 1e-8)
    assert (found["nans"], found["infs"]) == (0, 0)
    assert found["shape"] == exact.shape
    assert found["id"] == (exact.item() if exact.ndim == 0 else None)


@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, exact = Tensor(ARRAYS[name]), ARRAYS[name].astype(np.float64)
    check(measure(tensor), exact, 1e-6)
    assert measure(tensor, ("norm",))["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    if name != "float64":
        check(measure(tensor, meter=on_device(monkeypatch)), exact, 1e-4)


def test_a_view_a_parameter_and_bfloat16() -> None:
    whole = Tensor(ARRAYS["float32"])
    check(measure(whole.transpose(1, 0)[2:5]), ARRAYS["float32"].T[2:5].astype(np.float64), 1e-6)
    check(measure(mindspore.Parameter(whole, name="p")), ARRAYS["float32"].astype(np.float64), 1e-6)
    found = measure(Tensor(np.array([1.5, -2, 0], np.float32)).astype(mindspore.bfloat16))
    assert (found["max"], found["norm"], found["zeros"], found["dtype"]) == (1.5, 2.5, pytest.approx(1 / 3), "BFloat16")


@pytest.mark.parametrize("device", [False, True])
def test_what_is_not_finite_is_counted(device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = Tensor(np.array([1, math.nan, math.inf, -math.inf, math.nan, 0], np.float32))
    found = measure(tensor, meter=on_device(monkeypatch) if device else None)
    assert (found["nans"], found["infs"]) == (2, 2)
    assert math.isnan(found["norm"])
    assert found["zeros"] == pytest.approx(1 / 6)


def test_the_numbers_of_a_step_come_in_few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, copies, copy = on_device(monkeypatch), [], mindspore.Tensor.asnumpy
    needs = needs_of(("norm", "nans", "zeros", "id"))
    nodes = [meter.measure(Tensor(ARRAYS[name]), needs) for name in ("float32", "float16", "one")]
    monkeypatch.setattr(mindspore.Tensor, "asnumpy", lambda tensor: copies.append(tensor.shape) or copy(tensor))
    meter.settle()
    assert len(copies) == 3  # statistics, counts, values
    assert [node["zeros"] for node in nodes] == [0, 0, 0]


def test_numbers_and_empty_tensors() -> None:
    assert measure(0.25)["max"] == 0.25
    found = measure(Tensor(np.zeros((0, 3), np.float32)))
    assert (found["norm"], found["zeros"], found["nans"]) == (None, None, 0)
