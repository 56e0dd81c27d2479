"""summary_mode md5 and xor, against zlib and numpy on the tensor that the same record saved."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.torch

VALUES = {
    "float32": torch.tensor([1.5, -2.5, float("nan")]),
    "bfloat16": torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
    "float16": torch.arange(5, dtype=torch.float16),
    "float64": torch.linspace(0, 1, 7, dtype=torch.float64),
    "int8": torch.arange(-3, 6, dtype=torch.int8),
    "int64": torch.arange(4),
    "bool": torch.tensor([True, False, True]),
    "complex64": torch.tensor([1 + 2j, 3 - 4j]),
    "scalar": torch.tensor(2.5),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "strided": torch.arange(10.0)[::3],
    "lone": torch.arange(4.0).reshape(2, 2)[:, ::2][:1],  # contiguous, with a stride of 2
}


class Identity:
    """A place for a function that takes any tensor."""

    @staticmethod
    def ident(x: torch.Tensor) -> torch.Tensor:
        return x


def record(bench: Any, value: torch.Tensor, summary_mode: str) -> tuple[dict[str, Any], torch.Tensor]:
    debugger = bench.open("L1", "tensor", {"summary_mode": summary_mode})
    debugger.register_custom_api(Identity, "ident", "Lib")
    debugger.start()
    Identity.ident(value)
    debugger.stop()
    recorded = bench.read()
    node = recorded.data["Lib.ident.0.forward"]["input_args"][0]
    return node, recorded.tensor("Lib.ident.0.forward.input.0.pt")


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.new_empty(tensor.numel()).copy_(tensor.reshape(-1)).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", VALUES)
def test_md5_is_the_crc32_of_the_elements(bench: Any, name: str) -> None:
    node, saved = record(bench, VALUES[name], "md5")
    assert node["md5"] == f"{zlib.crc32(raw(saved)):08x}"
    assert node["Max"] is not None, "statistics stay beside the checksum"


@pytest.mark.parametrize("name", VALUES)
def test_xor_is_over_little_endian_words(bench: Any, name: str) -> None:
    node, saved = record(bench, VALUES[name], "xor")
    data = raw(saved)
    words = np.frombuffer(data + b"\0" * (-len(data) % 8), dtype="<u8")
    assert node["md5"] == f"0x{np.bitwise_xor.reduce(words):016x}"
    assert "Max" not in node


@pytest.mark.parametrize("name", VALUES)
def test_the_saved_tensor_is_the_value(bench: Any, name: str) -> None:
    _, saved = record(bench, VALUES[name], "md5")
    assert (saved.dtype, saved.shape) == (VALUES[name].dtype, VALUES[name].shape)
    assert raw(saved) == raw(VALUES[name])
    assert saved.untyped_storage().nbytes() == saved.numel() * saved.element_size()


def test_an_in_place_change_does_not_reach_the_checksum_before_it(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"summary_mode": "md5"})
    x = torch.ones(1000)
    before = f"{zlib.crc32(raw(x)):08x}"
    debugger.start()
    x.mul_(2)
    debugger.stop()
    body = bench.read().data["Tensor.mul_.0.forward"]
    assert body["input_args"][0]["md5"] == before
    assert body["output"][0]["md5"] == f"{zlib.crc32(raw(x)):08x}"


@pytest.mark.parametrize("summary_mode", ["md5", "xor"])
def test_tensors_without_memory_have_no_checksum(bench: Any, summary_mode: str) -> None:
    debugger = bench.open("L1", "statistics", {"summary_mode": summary_mode})
    debugger.start()
    F.relu(torch.empty(3, device="meta"))
    debugger.stop()
    assert bench.read().data["Functional.relu.0.forward"]["input_args"][0]["md5"] is None
