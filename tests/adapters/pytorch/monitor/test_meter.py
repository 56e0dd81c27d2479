"""What is measured of tensors of every kind, against numpy in float64."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from msprobe.adapters.pytorch.monitor.float_statistics import WaitingScalars  # noqa: E402
from msprobe.adapters.pytorch.monitor.meter import TorchMeter  # noqa: E402
from msprobe.monitor.statistics import STATISTICS, needs_of, values_of  # noqa: E402

pytestmark = pytest.mark.torch

NAMES = tuple(one.name for one in STATISTICS)
TENSORS = {
    "float32": torch.randn(5, 7),
    "strided": torch.randn(8, 6)[::2, 1:4],
    "bfloat16": torch.randn(100).bfloat16(),
    "float16": torch.randn(100).half(),
    "float64": torch.randn(100).double(),
    "int64": torch.arange(-3, 9),
    "zeros": torch.zeros(4),
    "one": torch.tensor(2.5),
    "parameter": torch.nn.Parameter(torch.randn(3)),
}


class DeviceMeter(TorchMeter):
    """Measures tensors of the CPU as those of a device."""

    def _waits(self, tensor: torch.Tensor) -> bool:
        return True


METERS: dict[str, Callable[..., TorchMeter]] = {
    "kernel": TorchMeter,
    "reductions": functools.partial(TorchMeter, native=False),
    "device": functools.partial(DeviceMeter, native=False),
}
EVERY = pytest.mark.parametrize("make", METERS.values(), ids=METERS)


def measure(
    tensor: Any, names: tuple[str, ...] = NAMES, make: Callable[..., TorchMeter] = TorchMeter
) -> dict[str, Any]:
    meter = make(1e-8)
    node = meter.measure(tensor, needs_of(names))
    meter.settle()
    return dict(zip(names, values_of(node, names), strict=True))


@EVERY
@pytest.mark.parametrize("name", TENSORS)
def test_values_are_those_of_numpy(name: str, make: Callable[..., TorchMeter]) -> None:
    tensor = TENSORS[name]
    exact = tensor.detach().double().numpy()
    found = measure(tensor, make=make)
    assert (found["min"], found["max"]) == (exact.min(), exact.max())
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-6, abs=1e-9)
    assert found["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    assert found["zeros"] == np.mean(np.abs(exact) < 1e-8)
    assert (found["nans"], found["infs"]) == (0, 0)
    assert found["shape"] == tuple(tensor.shape)
    assert found["id"] == (exact.item() if exact.ndim == 0 else None)
    assert measure(tensor, ("norm",), make)["norm"] == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    assert measure(tensor, ("max",), make)["max"] == exact.max()


@EVERY
def test_what_is_not_finite_is_counted(make: Callable[..., TorchMeter]) -> None:
    found = measure(torch.tensor([1.0, math.nan, math.inf, -math.inf, math.nan, 0.0]), make=make)
    assert (found["nans"], found["infs"]) == (2, 2)
    assert math.isnan(found["norm"])
    assert math.isnan(found["max"])
    assert measure(torch.tensor([math.inf, 1.0]), make=make)["norm"] == math.inf
    assert measure(torch.tensor([math.inf, 1.0]), ("infs",), make)["infs"] == 1


@EVERY
def test_an_empty_tensor_has_no_values(make: Callable[..., TorchMeter]) -> None:
    found = measure(torch.zeros(0, 3), make=make)
    assert (found["norm"], found["zeros"], found["nans"]) == (None, None, 0)


@EVERY
def test_zeros_that_a_sparse_tensor_does_not_store_are_counted(make: Callable[..., TorchMeter]) -> None:
    sparse = torch.sparse_coo_tensor([[0, 3, 3]], [1.0, 2.0, 0.0], (10,), check_invariants=True)
    found = measure(sparse, ("zeros", "norm", "nans"), make)
    assert (found["zeros"], found["nans"], found["norm"]) == (0.8, 0, pytest.approx(5.0**0.5))


def test_numbers_are_measured_too() -> None:
    assert measure(0.25)["max"] == 0.25


def test_reductions_give_what_the_kernel_gives() -> None:
    tensors = [torch.randn(300), torch.randn(20, 20).bfloat16(), torch.full((9,), math.nan), torch.zeros(5), 3.5]
    found = []
    for make in METERS.values():
        meter = make(1e-8)
        nodes = meter.measure_all(tensors, needs_of(NAMES))
        meter.settle()
        found.append([values_of(node, NAMES) for node in nodes])
    for kernel, *others in zip(*found, strict=True):
        for one, *rest in zip(kernel, *others, strict=True):
            for other in rest:
                assert other == (
                    pytest.approx(one, rel=1e-12, abs=1e-12, nan_ok=True) if isinstance(one, float) else one
                )


@EVERY
def test_sums_are_rounded_where_the_framework_would_round_them(make: Callable[..., TorchMeter]) -> None:
    tensor = torch.randn(50, generator=torch.Generator().manual_seed(1))
    meter = make(1e-8, rounded=True)
    node = meter.measure(tensor, needs_of(("norm", "mean")))
    meter.settle()
    for name, exact in (("Norm", tensor.double().norm()), ("Mean", tensor.double().mean())):
        assert node[name] == float(exact.float()) != float(exact)


def launches_of(count: int, names: tuple[str, ...]) -> int:
    """Return how many operators of torch it takes to measure this many tensors together, without the kernel."""

    class Counted(TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function._schema.name not in ("aten::detach", "aten::alias", "aten::view"):
                self.found += 1
            return function(*args, **(kwargs or {}))

    tensors, meter = [torch.randn(6) for _ in range(count)], DeviceMeter(1e-8, native=False)
    with Counted() as mode:
        meter.measure_all(tensors, needs_of(names))
        meter.settle()
    return mode.found


def test_one_launch_takes_the_norms_of_all_tensors() -> None:
    assert launches_of(200, ("norm",)) == launches_of(2, ("norm",))
    assert launches_of(102, ("norm", "max", "min", "mean")) - launches_of(2, ("norm", "max", "min", "mean")) <= 200


def test_what_changes_afterwards_does_not_count() -> None:
    tensor, meter = torch.ones(4), DeviceMeter(1e-8, native=False)
    node = meter.measure(tensor, needs_of(NAMES))
    tensor.zero_()
    meter.settle()
    assert values_of(node, ("min", "max", "mean", "norm", "zeros")) == (1.0, 1.0, 1.0, 2.0, 0.0)


def test_many_scalars_are_put_together_before_they_are_fetched() -> None:
    scalars, nodes = WaitingScalars(), [{} for _ in range(10_000)]  # type: list[dict[str, Any]]
    for number, node in enumerate(nodes):
        scalars.add(torch.tensor(number if number % 3 else float(number)), node, "value")
    assert nodes[5] == {"value": None}
    scalars.settle()
    assert [node["value"] for node in nodes] == list(range(10_000))
    scalars.settle()  # nothing waits


def test_packed_scalars_are_freed() -> None:
    waiting, node = WaitingScalars(), dict[str, Any]()
    value = torch.tensor(2.5)
    kept = weakref.ref(value)
    waiting.add(value, node, "norm")
    del value
    for loose in waiting._loose.values():
        waiting._pack(loose)
    assert kept() is None
    waiting.settle()
    assert node == {"norm": 2.5}
