"""The projection of ``torch.Tensor``: by the compiled kernel on the CPU, by one matrix product on a device.

The device is not waited for: the sum stays there as a scalar until ``settle`` fetches all of them in one copy. Devices
without float64 sum in float32, so fewer digits are right.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import torch

from msprobe.adapters.pytorch.tensor_memory import dense, with_memory
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.projection import BLOCK, KEY, block_weights, place_weights, projection
from msprobe.native.loader import Kernel

_functions = torch._C._VariableFunctions
_FLOAT32_DEVICES = ("npu", "mps", "xpu")


class Projector:
    """Computes projections, and holds those that are still on a device."""

    def __init__(self, kernel: Kernel | None) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self._pending: list[tuple[dict[str, Any], torch.Tensor]] = []

    @property
    def outstanding(self) -> bool:
        """Whether projections are still on a device."""
        return bool(self._pending)

    def project(self, tensor: torch.Tensor, node: dict[str, Any]) -> None:
        """Put the projection into ``node``, now or at the next ``settle``; null where the tensor has no numbers."""
        node[KEY] = None
        plain = with_memory(tensor)
        if plain is None or plain.numel() == 0:
            return
        try:
            with torch.no_grad():
                if plain.is_cpu:
                    node[KEY] = self._on_host(dense(plain.contiguous()))  # in row-major order
                    return
                scalar = device_projection(plain)
        except (RuntimeError, TypeError):  # torch has no arithmetic for this dtype
            return
        with self._lock:
            self._pending.append((node, scalar))

    def settle(self) -> None:
        """Fetch the projections that are on devices, and put them into their nodes."""
        with self._lock:
            pending, self._pending = self._pending, []
        for device in {scalar.device for _, scalar in pending}:
            entries = [(node, scalar) for node, scalar in pending if scalar.device == device]
            values = _functions.stack([scalar for _, scalar in entries]).cpu().tolist()
            for (node, _), value in zip(entries, values, strict=True):
                node[KEY] = value

    def _on_host(self, plain: torch.Tensor) -> float | None:
        dtype = find_dtype(str(plain.dtype))
        if self._kernel is not None and dtype is not None and dtype.code >= 0:
            return self._kernel.projection(plain.data_ptr(), plain.numel(), dtype.code)
        real = plain.to(torch.complex128).abs() if plain.is_complex() else plain
        return projection(real.to(torch.float64).numpy())


def device_projection(plain: torch.Tensor) -> torch.Tensor:
    """Return the projection of a detached, non-empty tensor of any shape, as a scalar on its device."""
    wide = torch.float32 if plain.device.type in _FLOAT32_DEVICES else torch.float64
    flat = (plain.abs() if plain.is_complex() else plain).reshape(-1).to(wide)
    whole = flat.numel() // BLOCK * BLOCK
    places, blocks = _weights(str(plain.device), wide, -(-flat.numel() // BLOCK))
    total = _functions.dot(_functions.mv(flat[:whole].view(-1, BLOCK), places), blocks[: whole // BLOCK])
    if whole < flat.numel():
        total = total + _functions.dot(flat[whole:], places[: flat.numel() - whole]) * blocks[-1]
    return total


@lru_cache(maxsize=64)
def _weights(device: str, dtype: torch.dtype, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    tables = (place_weights(), block_weights(blocks))
    first, second = (torch.from_numpy(table.copy()).to(dtype).to(device) for table in tables)
    return first, second
