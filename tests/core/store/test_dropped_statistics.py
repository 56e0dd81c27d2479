"""Statistics that were not asked for stay out of the files, and stay in the records."""

from __future__ import annotations

from msprobe.core.store.sink import drop_statistics

TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 2.0, "Min": 1.0, "Mean": 1.5}


def test_only_tensors_lose_the_named_fields() -> None:
    number = {"type": "float", "value": 2.0}
    record = {"e": "Torch.max.0.forward", "d": {"output": [TENSOR, number, {"Max": number}, None], "Max": "text"}}
    left = {key: value for key, value in TENSOR.items() if key not in ("Max", "Min")}
    expected = {"e": "Torch.max.0.forward", "d": {"output": [left, number, {"Max": number}, None], "Max": "text"}}
    assert drop_statistics(record, ("Max", "Min")) == expected
    assert "Max" in TENSOR  # a judge may still need it
