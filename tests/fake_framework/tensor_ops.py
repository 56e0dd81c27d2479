"""Facts, statistics, checksums and files of fake tensors, by the oracle of the core.

With ``deferred`` the statistics come only at ``settle``, as from a device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.store.safe_files import replacement
from msprobe.core.tensors.checksums import crc32, xor
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.projection import projection
from msprobe.core.tensors.statistics import NO_STATS, set_statistics
from tests.fake_framework.tensor import Tensor


class FakeTensorOps:
    """Implements ``TensorOps``."""

    suffix = ".npy"
    arrivals = None

    def __init__(self, precision: Any = "low", deferred: bool = False) -> None:
        self._precision = precision
        self._deferred = deferred
        self._lock = threading.Lock()
        self._pending: list[tuple[dict[str, Any], Any]] = []

    def describe(self, tensor: Tensor, statistics: bool, projection: bool = False) -> dict[str, Any]:
        array = tensor.data
        node: dict[str, Any] = {"type": "fake.Tensor", "dtype": str(array.dtype), "shape": list(array.shape)}
        if statistics:
            set_statistics(node, NO_STATS)
            if self._deferred:
                with self._lock:
                    self._pending.append((node, array.copy()))
            else:
                self._fill(node, array)
        node["requires_grad"] = tensor.requires_grad
        return node

    def note_memory(self, tensor: Tensor, node: dict[str, Any]) -> None:
        """Add nothing: tensors of this framework share no memory."""

    def below_transforms(self, tensor: Tensor) -> Tensor:
        return tensor

    def describe_with_checksum(
        self, tensor: Tensor, statistics: bool, kind: str, projection: bool = False
    ) -> dict[str, Any]:
        return {**self.describe(tensor, statistics, projection), "md5": self.checksum(tensor, kind)}

    @property
    def outstanding(self) -> bool:
        return bool(self._pending)

    def settle(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        for node, array in pending:
            self._fill(node, array)

    def project(self, tensor: Tensor, node: dict[str, Any]) -> None:
        node["Projection"] = projection(np.abs(tensor.data) if tensor.data.dtype.kind == "c" else tensor.data)

    def checksum(self, tensor: Tensor, kind: str) -> str | None:
        array = tensor.data
        if kind == "xor" and array.size == 0:
            return None
        return crc32(array) if kind == "crc32" else xor(array)

    def snapshot(self, tensor: Tensor) -> tuple[Callable[[], Tensor], int] | None:
        copy = Tensor(tensor.data.copy())
        return (lambda: copy), tensor.data.nbytes

    def save(self, tensor: Tensor, path: str | Path) -> bool:
        with replacement(path) as temporary, open(temporary, "wb") as file:
            np.save(file, tensor.data, allow_pickle=False)
        return True

    def _fill(self, node: dict[str, Any], array: Any) -> None:
        set_statistics(node, statistics(array, precision=self._precision))
