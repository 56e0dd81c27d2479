"""``projection: true`` records the order-sensitive sum of every tensor, by whatever path it is computed."""

from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.tensors.reductions import device_projection
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.tensors.projection import BLOCK, projection

pytestmark = pytest.mark.torch
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


def expected(tensor: Any) -> float:
    value = projection((tensor.abs() if tensor.is_complex() else tensor).to(torch.float64).numpy())
    assert value is not None
    return value


def projected(tensor: Any, native: bool) -> Any:
    node: dict[str, Any] = {}
    ops = TorchTensorOps(native=native)
    ops.project(tensor, node)
    ops.settle()
    return node["Projection"]


@pytest.mark.parametrize("native", [True, False], ids=["kernel", "torch"])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64], ids=str)
def test_every_path_computes_the_same_sum(native: bool, dtype: Any) -> None:
    torch.manual_seed(0)
    tensor = (torch.randn(3, 1001) * 20).to(dtype)
    for given in (tensor, tensor.t(), tensor[:, ::3], tensor[0, 0]):
        assert projected(given, native) == pytest.approx(expected(given), rel=1e-6 if dtype.is_complex else 1e-11)


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 4 * BLOCK])
def test_the_path_of_devices(size: int) -> None:
    tensor = torch.linspace(-1, 3, size)
    assert float(device_projection(tensor)) == pytest.approx(expected(tensor), rel=1e-11)


def test_tensors_without_numbers_have_none() -> None:
    for tensor in (torch.empty(0), torch.empty(3, device="meta")):
        assert projected(tensor, True) is None


@pytest.mark.parametrize("summary_mode", ["statistics", "md5", "xor"])
@pytest.mark.parametrize("background", [False, True], ids=["at_once", "async_dump"])
def test_recorded_where_it_is_asked_for(bench: Any, summary_mode: str, background: bool) -> None:
    debugger = bench.open(section={"projection": True, "summary_mode": summary_mode}, async_dump=background)
    values = torch.arange(6.0).reshape(2, 3)
    with debugger.collect(None):
        torch.relu(values)
    (leaf,) = bench.read().data["Torch.relu.0.forward"]["output"]
    if summary_mode == "xor":
        assert "Projection" not in leaf
    else:
        assert leaf["Projection"] == pytest.approx(expected(values))


def test_not_recorded_unless_asked_for(bench: Any) -> None:
    debugger = bench.open()
    with debugger.collect(None):
        torch.relu(torch.ones(3))
    assert "Projection" not in bench.read().data["Torch.relu.0.forward"]["output"][0]
