"""The node of one tensor: what it is, its statistics or checksum, and its file when the tensor itself is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic

from msprobe.core.backend.protocols import T_contra, TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.log import logger
from msprobe.core.store.layout import file_name


class LeafTask(Generic[T_contra]):
    """Measures tensors for one step.

    Args:
        ops: the framework's tensor operations.
        summary_mode: statistics, md5 (statistics and a CRC-32) or xor (the checksum alone).
        folder: where tensor files go.
    """

    def __init__(self, ops: TensorOps[T_contra], summary_mode: str, folder: Path | None) -> None:
        self._ops = ops
        self._folder = folder
        self._statistics = summary_mode != "xor"
        self._checksum = {"md5": "crc32", "xor": "xor"}.get(summary_mode)
        self._disk_failed = False

    def leaf(self, tensor: T_contra, place: str, around: tuple[int, ...] = ()) -> Node:
        """The node of ``tensor``; a ``place`` means that the tensor is saved under that name."""
        node = self._ops.describe(tensor, self._statistics)
        if place:
            self._save(tensor, place, node)
        if self._checksum is not None:
            node["md5"] = self._ops.checksum(tensor, self._checksum)
        return node

    def _save(self, tensor: T_contra, place: str, node: dict[str, Any]) -> None:
        if self._folder is None or self._disk_failed:
            return
        path = self._folder / file_name(place, self._ops.suffix)
        try:
            saved = self._ops.save(tensor, path)
        except OSError as error:
            self._disk_failed = True
            reason = error.strerror or error
            logger.error("cannot save tensors in %s (%s): statistics go on without them", self._folder, reason)
            return
        if saved:
            node["data_name"] = path.name
