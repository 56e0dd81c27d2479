"""What torch answers through DLPack's exchange is what it answers to one question after the other."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from msprobe.adapters.pytorch.tensors.tensor_ops import DlpackDescriber, TorchTensorOps
from msprobe.native import fused

LARGE = 1 << 18
"""Bytes of a tensor that is measured in several blocks."""
DTYPES = sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}, key=str)


@pytest.fixture
def exchange() -> DlpackDescriber:
    found = DlpackDescriber.with_kernel(high=False)
    if found is None:
        pytest.skip("no compiled kernel, or a torch without the exchange")
    return found


def asking(tensor: torch.Tensor) -> dict[str, object]:
    ops = TorchTensorOps()
    ops._exchange = None
    return ops.describe(tensor, True)


@pytest.mark.filterwarnings("ignore")  # torch about dtypes that it is going to drop
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_is_answered_alike_or_not_at_all(exchange: DlpackDescriber, dtype: torch.dtype) -> None:
    try:
        tensor = torch.arange(1, 25, dtype=torch.uint8).view(dtype)
    except RuntimeError:
        pytest.skip("torch does not view bytes as these")
    node = exchange.describe(tensor)
    if node is not None:
        asked = asking(tensor)
        assert list(node) == list(asked)
        assert repr(node) == repr(asked)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "shape", [(), (1,), (4, 3), (2, 1, 3), (1, 1), (LARGE // 4,), (3, LARGE // 4)], ids=lambda shape: f"{len(shape)}d"
)
@pytest.mark.parametrize("parameter", [False, True], ids=["tensor", "parameter"])
def test_a_dense_tensor_is_answered(exchange: DlpackDescriber, shape: tuple[int, ...], parameter: bool) -> None:
    tensor = torch.randn(shape)
    tensor = torch.nn.Parameter(tensor) if parameter else tensor
    node = exchange.describe(tensor)
    assert node is not None
    assert node["requires_grad"] is parameter
    assert node == asking(tensor)


def test_nan_and_infinity_are_answered_alike(exchange: DlpackDescriber) -> None:
    node = exchange.describe(torch.tensor([1.0, math.nan, math.inf]))
    assert node is not None
    assert all(math.isnan(node[key]) for key in ("Max", "Min", "Mean", "Norm"))


class Kind(torch.Tensor):
    pass


OTHERS: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.zeros(0, 3),
    "expanded to many": lambda: torch.randn(1).expand(1 << 20),
    "negated view": lambda: torch.zeros(3, dtype=torch.complex64).conj().imag,
    "meta": lambda: torch.zeros(3, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "subclass": lambda: torch.randn(3).as_subclass(Kind),
    "bits of bytes": lambda: torch.zeros(4, dtype=torch.uint8).view(torch.int4),
    "no memory": lambda: freed(torch.randn(3)),
}


def freed(tensor: torch.Tensor) -> torch.Tensor:
    """As sharded training leaves resting parameters."""
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_what_needs_a_closer_look_is_left_to_it(exchange: DlpackDescriber, make: Callable[[], torch.Tensor]) -> None:
    assert exchange.describe(make()) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_tensor_without_data_says_so(name: str) -> None:
    make = OTHERS[name]
    node, digest = (
        TorchTensorOps().describe(make(), True),
        TorchTensorOps().describe_with_checksum(make(), False, "xor"),
    )
    assert [one.get("no_data", False) for one in (node, digest)] == [name in ("meta", "no memory")] * 2
    assert node.get("layout") == {"sparse": "sparse_coo"}.get(name)


STRIDED: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.randn(4, 3).T,
    "strided": lambda: torch.randn(4, 6)[:, ::2],
    "expanded": lambda: torch.randn(1).expand(5),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_strided_memory_is_read_in_place(exchange: DlpackDescriber, make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    assert exchange.describe(tensor) == TorchTensorOps(native=False).describe(tensor, True)


def test_values_inside_vmap_are_left_alone(exchange: DlpackDescriber) -> None:
    seen = []

    def look(row: torch.Tensor) -> torch.Tensor:
        seen.append(exchange.describe(row))
        return row * 2

    torch.vmap(look)(torch.randn(2, 3))
    assert seen == [None]


def test_a_capsule_of_something_else_is_refused() -> None:
    if fused is None:
        pytest.skip("no compiled kernel")
    with pytest.raises(ValueError, match="PyCapsule"):
        fused.tensor_summary(object(), torch.ones(1), False)
