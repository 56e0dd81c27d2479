"""Statistics of devices: nothing comes to the host while tensors are measured, and all of it at once afterwards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps

pytestmark = pytest.mark.torch
NAMES = ("Max", "Min", "Mean", "Norm")
DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
)


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def measured(tensors: list[torch.Tensor]) -> tuple[list[dict[str, Any]], Counter[str], Counter[str]]:
    """Nodes, and the operators that measuring and settling called."""
    deferred, nodes = DeferredStatistics(high=False), [dict.fromkeys(NAMES) for _ in tensors]
    with Counting() as adding:
        for tensor, node in zip(tensors, nodes, strict=True):
            deferred.add(tensor, node)
    assert deferred.outstanding
    with Counting() as settling:
        deferred.settle()
    assert not deferred.outstanding
    return nodes, adding.calls, settling.calls


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_values_are_those_of_the_kernel(dtype: torch.dtype) -> None:
    tensor = torch.linspace(0, 9, 70).to(dtype).reshape(7, 10)
    (node,), _, _ = measured([tensor])
    wanted, within = TorchTensorOps().describe(tensor, True), 2**-8 if dtype.itemsize == 2 else 1e-6
    for name in NAMES:
        assert node[name] == (None if wanted[name] is None else pytest.approx(wanted[name], rel=within))


BROUGHT = {
    "floats": [(torch.ones(3), 1.0), (torch.tensor([2.5, -1.0]), 2.5)],
    "flags": [(torch.tensor([True, False]), True)],
    "all kinds": [(torch.ones(3), 1.0), (torch.tensor([2**62 + 1]), 2**62 + 1), (torch.tensor([True]), True)],
}


@pytest.mark.parametrize("kinds", BROUGHT.values(), ids=BROUGHT)
@pytest.mark.parametrize("count", [1, 40])
def test_one_copy_to_the_host_however_many(
    count: int, kinds: list[tuple[torch.Tensor, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, copy = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: copies.append(tensor) or copy(tensor))
    nodes, adding, settling = measured([tensor for tensor, _ in kinds] * count)
    assert adding["_local_scalar_dense"] == settling["_local_scalar_dense"] == 0
    assert len(copies) == 1
    assert [node["Max"] for node in nodes] == [largest for _, largest in kinds] * count
