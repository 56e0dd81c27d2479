"""``projection: true`` records the order-sensitive sum of every tensor, by whatever path it is computed."""

from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics, device_projection
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.dump.record.tensor_node import MeasuredTensors
from msprobe.core.tensors.projection import BLOCK, EXPANDED, projection
from msprobe.native import measuring

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


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 4 * BLOCK, (1 << 22) - 1, (1 << 22) + BLOCK + 7])
def test_the_path_of_devices(size: int) -> None:
    tensor = torch.linspace(-1, 3, size)
    node: dict[str, Any] = {}
    deferred = DeferredStatistics(high=False)
    deferred.add_measured(node, device_projection(tensor))
    deferred.settle()
    assert node["Projection"] == pytest.approx(expected(tensor), rel=1e-11)


def test_tensors_without_numbers_have_none() -> None:
    for tensor in (torch.empty(0), torch.empty(3, device="meta")):
        assert projected(tensor, True) is None


@pytest.mark.matrix("wide", sample="each value")
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


needs_kernel = pytest.mark.skipif(measuring is None, reason="needs the compiled kernel")


@needs_kernel
@pytest.mark.parametrize(
    ("section", "recorded"),
    [
        ({}, True),
        ({"projection": "auto"}, True),
        ({"projection": False}, False),
        ({"summary_mode": "md5"}, False),
        ({"summary_mode": "md5", "projection": True}, True),
        ({"summary_mode": "xor"}, False),
        ({"summary_mode": ["mean"]}, False),
        ({"summary_mode": ["mean"], "projection": True}, True),
    ],
    ids=str,
)
def test_recorded_by_default_with_the_kernel(bench: Any, section: Any, recorded: bool) -> None:
    debugger = bench.open(section=section)
    with debugger.collect(None):
        torch.relu(torch.ones(3))
    assert ("Projection" in bench.read().data["Torch.relu.0.forward"]["output"][0]) is recorded


def test_without_the_kernel_only_where_it_is_asked_for() -> None:
    ops, tensor = TorchTensorOps(native=False), torch.ones(5)
    for projection_too, wanted in (("auto", False), (True, True), (False, False)):
        node: Any = MeasuredTensors(ops, "statistics", None, projection_too).leaf(tensor, "")
        assert ("Projection" in node) is wanted


LAYOUTS = {
    "turned": lambda t: t.transpose(0, -1),
    "heads": lambda t: t.transpose(1, 2),
    "channels_last": lambda t: t.permute(0, 3, 1, 2),
    "every_third": lambda t: t[..., ::3],
    "cut": lambda t: t[1:, :, 1:],
    "turned_and_cut": lambda t: t.permute(3, 1, 0, 2)[2:, :, ::2],
    "expanded": lambda t: t[:1].expand(5, *t.shape[1:]),
    "expanded_inside": lambda t: t[..., :1].expand_as(t),
}


@pytest.mark.matrix("wide", sample="each value")
@needs_kernel
@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.complex128, torch.int32, torch.int16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_changes_no_bit(dtype: Any, layout: str) -> None:
    torch.manual_seed(0)
    turned = LAYOUTS[layout]((torch.randn(5, 17, 33, 35) * 20).to(dtype))
    ops = TorchTensorOps()
    found, wanted = (ops.describe(one, True, True) for one in (turned, turned.contiguous()))
    assert found == wanted and found["Projection"] is not None
    assert projected(turned, True) == found["Projection"]
    assert found["Projection"] == pytest.approx(expected(turned.contiguous()), rel=1e-6 if dtype.is_complex else 1e-10)


SHAPES = (
    (700, 1200),
    (3, 300001),
    (300001, 3),
    (2, 90001, 2),
    (64, 40),
    (61, 104),
    (40, 2048),
    (9, 31),
    (4, 64, 3, 96),
)


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int16, torch.uint8], ids=str)
def test_panels_of_turned_tensors(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        turned = (torch.randn(shape) * 50).to(dtype).transpose(0, -1)
        ops = TorchTensorOps()
        assert ops.describe(turned, True, True) == ops.describe(turned.contiguous(), True, True)


@needs_kernel
def test_neither_number_of_threads_nor_thread_changes_a_bit() -> None:
    tensor, before = torch.randn(100_000), torch.get_num_threads()
    values = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            values.append(TorchTensorOps().describe(tensor, True, True)["Projection"])
    finally:
        torch.set_num_threads(before)
    assert len(set(values)) == 1


@pytest.mark.parametrize("native", [True, False], ids=["kernel", "torch"])
def test_what_expand_made_large_has_none(native: bool) -> None:
    large = torch.ones(3, 1).expand(3, EXPANDED)
    assert projected(large, native) is None
    assert TorchTensorOps(native=native).describe(large, True, True).get("Projection") is None


@needs_kernel
def test_the_default_measures_tensors_with_pending_signs() -> None:
    tensor = torch.randn(40, dtype=torch.complex64)
    imaginary = tensor.conj().imag  # the negative bit is set
    assert imaginary.is_neg()
    node = TorchTensorOps().describe(imaginary, True, True)
    assert node["Projection"] == TorchTensorOps().describe(imaginary.resolve_neg().clone(), True, True)["Projection"]
