"""How ``SingleSave`` (``saved_values/single_save.py``) reads tensors of PyTorch, and the rank."""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.tensors.memory import with_memory

_OF_NUMPY = (torch.float16, torch.float32, torch.float64)
_runtime = TorchRuntime()


def array_of(value: Any) -> tuple[Any, str] | None:
    """Return the elements of a tensor on the host, and its type where they were widened; None for what is no tensor.

    Of a DTensor they are the part of this process.

    Raises:
        ValueError: the tensor has no data (meta, fake).
    """
    if not isinstance(value, torch.Tensor):
        return None
    plain = _plain(value)
    widened = plain.is_floating_point() and plain.dtype not in _OF_NUMPY
    return (plain.float() if widened else plain).numpy(), str(plain.dtype).removeprefix("torch.") if widened else ""


def process_rank() -> int | None:
    """Return the rank in the default process group; None without one."""
    return _runtime.rank()


def _plain(value: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if value.layout is torch.sparse_coo or value.layout is torch.sparse_csr:
            return value.to_dense().cpu()
        plain = with_memory(value)
        if plain is None and value.numel() == 0:
            plain = value.detach()
        if plain is None:
            raise ValueError(f"a tensor on device {value.device} without data")
        return plain.cpu()
