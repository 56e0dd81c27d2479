"""The node of one tensor: what it is, its statistics or checksum, and its file when the tensor itself is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, Protocol

from msprobe.core.backend.protocols import T_contra, TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.log import logger
from msprobe.core.store.layout import file_name


class Leaves(Protocol):
    """Turns one tensor into its node."""

    def leaf(self, tensor: Any, place: str, around: tuple[int, ...] = ()) -> Node: ...


class LeafTask(Generic[T_contra]):
    """Measures tensors for one step.

    Args:
        ops: the framework's tensor operations.
        summary_mode: statistics, md5 (statistics and a CRC-32) or xor (the checksum alone).
        folder: where tensor files go.
        projection: also the order-sensitive statistic.
    """

    def __init__(
        self, ops: TensorOps[T_contra], summary_mode: str, folder: Path | None, projection: bool = False
    ) -> None:
        self.ops = ops
        self.summary_mode = summary_mode
        self.folder = folder
        self._statistics = summary_mode != "xor"
        self.projection = projection and self._statistics
        self._checksum = {"md5": "crc32", "xor": "xor"}.get(summary_mode)
        self._disk_failed = False

    def leaf(self, tensor: T_contra, place: str, around: tuple[int, ...] = ()) -> Node:
        """The node of ``tensor``; a ``place`` means that the tensor is saved under that name."""
        if not place and not self.projection:
            if self._checksum is None:
                return self.ops.describe(tensor, self._statistics)
            return self.ops.describe_with_checksum(tensor, self._statistics, self._checksum)
        node = self.described(tensor)
        self.complete(tensor, place, node)
        return node

    def settle(self) -> None:
        """Return when every node is complete."""
        self.ops.settle()

    def described(self, tensor: T_contra) -> dict[str, Any]:
        """The node with what is measured while the call waits."""
        node = self.ops.describe(tensor, self._statistics)
        if self.projection:
            self.ops.project(tensor, node)
        return node

    def complete(self, tensor: T_contra, place: str, node: dict[str, Any]) -> None:
        """Add to ``node`` what takes long: the file and the checksum."""
        if place:
            self.save(tensor, place, node)
        if self._checksum is not None:
            node["md5"] = self.ops.checksum(tensor, self._checksum)

    def save(self, tensor: T_contra, place: str, node: dict[str, Any]) -> None:
        """Write the file of ``tensor`` and name it in ``node``; an error of the disk ends the saving of the step."""
        if self.folder is None or self._disk_failed:
            return
        path = self.folder / file_name(place, self.ops.suffix)
        try:
            saved = self.ops.save(tensor, path)
        except OSError as error:
            self._disk_failed = True
            reason = error.strerror or error
            logger.error(
                "cannot save tensors in %s (%s): statistics go on without them. "
                "Free some space or choose another dump_path.",
                self.folder,
                reason,
            )
            return
        if saved:
            node["data_name"] = path.name
