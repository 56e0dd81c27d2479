"""Tensors expanded to sizes that no memory could hold: measured by their elements, once each."""

from __future__ import annotations

import math
import resource
import zlib
from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.tensors.memory import EXPANDED
from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps

pytestmark = pytest.mark.torch
HUGE = 10**9
NAMES = ("Max", "Min", "Mean", "Norm")
by_native = pytest.mark.parametrize("native", [True, False], ids=["kernel", "torch"])


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@by_native
@pytest.mark.parametrize(
    ("dtype", "mean", "norm"),
    [
        (torch.float32, 0.5, math.sqrt(HUGE * 2.5)),
        (torch.bfloat16, 0.5, 49920.0),
        (torch.float64, 0.5, math.sqrt(HUGE * 2.5)),
        (torch.int64, 0.5, math.sqrt(HUGE * 2.5)),
        (torch.complex64, 1.5, math.sqrt(HUGE * 2.5)),
        (torch.bool, None, None),
    ],
    ids=lambda value: str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else "",
)
def test_a_billion_elements_cost_no_memory(native: bool, dtype: torch.dtype, mean: Any, norm: Any) -> None:
    tensor = torch.tensor([-1, 2]).to(dtype).reshape(2, 1).expand(2, HUGE // 2)
    before = peak()
    node = TorchTensorOps(native=native).describe(tensor, True)
    assert peak() - before < 50_000_000
    assert node["shape"] in ([2, HUGE // 2], (2, HUGE // 2))
    extremes = {torch.bool: (True, True), torch.complex64: (2, 1)}.get(dtype, (2, -1))
    assert (node["Max"], node["Min"]) == extremes
    assert node["Mean"] == mean
    assert node["Norm"] == (None if norm is None else pytest.approx(norm, rel=1e-7))


def test_on_devices_the_same() -> None:
    once, node = torch.tensor([-1.0, 2.0]), dict.fromkeys(NAMES)
    deferred = DeferredStatistics(high=False)
    deferred.add(once, node, HUGE // 2)
    deferred.settle()
    assert list(node.values()) == [2.0, -1.0, 0.5, pytest.approx(math.sqrt(HUGE * 2.5), rel=1e-7)]


@by_native
@pytest.mark.parametrize("size", [100, EXPANDED // 3 + 1], ids=["small", "large"])
def test_the_values_are_those_of_the_written_out_tensor(native: bool, size: int) -> None:
    expanded = torch.tensor([0.3, -1.7, 2.9]).reshape(3, 1).expand(3, size)
    ops = TorchTensorOps(native=native)
    found, wanted = (ops.describe(tensor, True) for tensor in (expanded, expanded.contiguous()))
    assert [found[name] for name in NAMES] == pytest.approx([wanted[name] for name in NAMES], rel=1.2e-7)
    for kind in ("crc32", "xor"):
        assert ops.checksum(expanded, kind) == ops.checksum(expanded.contiguous(), kind)


def test_nan_and_infinity_spread() -> None:
    ops = TorchTensorOps()
    node = ops.describe(torch.tensor([float("nan"), 1.0]).reshape(2, 1).expand(2, HUGE), True)
    assert all(math.isnan(node[name]) for name in NAMES)
    node = ops.describe(torch.tensor(float("inf")).expand(HUGE), True)
    assert [node[name] for name in NAMES] == [math.inf] * 4


def test_the_copy_that_waits_is_small() -> None:
    source = torch.tensor([1.0, 2.0])
    answer = TorchTensorOps().snapshot(source.reshape(2, 1).expand(2, HUGE))
    assert answer is not None
    copy, size = answer
    source.fill_(7)
    assert size == 8
    assert copy().shape == (2, HUGE)
    assert copy()[:, 5].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["crc32", "xor"])
def test_the_checksum_is_taken_piece_by_piece(kind: str) -> None:
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).expand(5_000_000, 2)
    before = peak()
    found = TorchTensorOps().checksum(tensor, kind)
    assert peak() - before < 10_000_000
    data = bytes(tensor[:1].clone().view(torch.uint8).numpy().tobytes()) * 5_000_000
    assert found == (f"{zlib.crc32(data):08x}" if kind == "crc32" else f"0x{0:016x}")
