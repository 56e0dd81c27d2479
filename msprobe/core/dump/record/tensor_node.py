"""The node of one tensor: its facts, its statistics or checksum, and its file when the tensor itself is saved.

A node is the JSON value that stands for one argument in dump.json. ``MeasuredTensors`` makes nodes. ``SlicedTensors``
first cuts each tensor as ``slice`` and ``scheduled_tokens`` ask for:

    [{"dim": 0, "begin": 2, "end": 5}]            every tensor t becomes t[2:5]
    {"dim": 1, "size": 128, "end": 1}             only tensors that are 128 long in dimension 1

Several items apply one after the other. A tensor that lacks the dimension of an item, has another ``size`` there, or
cannot be cut (sparse, nested) stays whole. The recorded shape is that of the part.

``tensor_nodes`` and ``split_sides`` read the nodes of a record (see ``record_walk``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Protocol

from msprobe.core.backend.protocols import T_contra, TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.config.sections import SliceItem
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.layout import file_name
from msprobe.core.store.record_walk import NO_DATA, is_tensor, values_below
from msprobe.core.store.safe_files import disk_remedy
from msprobe.core.store.sink import Account
from msprobe.core.tensors.projection import KEY

_FACTS = frozenset({"type", "dtype", "shape", "requires_grad"})
"""What a node says of a tensor before its values have arrived."""


class TensorNodes(Protocol):
    """Makes the nodes of the tensors of one step."""

    @property
    def folder(self) -> Path | None:
        """The folder of tensor files; None when no tensors are kept."""
        ...

    def leaf(self, tensor: Any, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of ``tensor``; a non-empty ``save_as`` names the file that the tensor is saved in."""
        ...

    def settle(self) -> None:
        """Return when every node made so far is complete."""
        ...

    def move(self, folder: Path) -> None:
        """Save tensors into ``folder`` from now on, if any are saved."""
        ...


class MeasuredTensors(Generic[T_contra]):
    """Measure tensors for one step, in the call that is recorded.

    Args:
        ops: the framework's tensor operations.
        summary_mode: ``statistics``, ``md5`` (statistics and a CRC-32) or ``xor`` (the checksum alone).
        folder: where tensor files are written; None to keep no tensors.
        projection: whether to measure the order-sensitive statistic too; ``auto`` where this takes no pass of its own.
        memory: whether to say which memory each tensor lies in.

    Attributes:
        account: counts the files; where its budget is reached no more are written.
    """

    def __init__(
        self,
        ops: TensorOps[T_contra],
        summary_mode: str,
        folder: Path | None,
        projection: bool | Literal["auto"] = False,
        *,
        memory: bool = False,
    ) -> None:
        self.ops = ops
        self.folder = folder
        self._note_memory = ops.note_memory if memory else None
        self._statistics = summary_mode != "xor"
        self._projection = bool(projection) and self._statistics
        self._always_projection = projection is True and self._statistics
        self._checksum = {"md5": "crc32", "xor": "xor"}.get(summary_mode)
        self._disk_failed = False
        self.account: Account | None = None

    @property
    def has_checksums(self) -> bool:
        """Whether the nodes have a checksum."""
        return self._checksum is not None

    def leaf(self, tensor: T_contra, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of ``tensor``; a non-empty ``save_as`` names the file that the tensor is saved in."""
        if save_as or self._checksum is None:
            node = self.describe(tensor)
            if NO_DATA in node and self.await_values(tensor, save_as, node):
                return node
            if save_as:
                self.complete(tensor, save_as, node)
            return node
        node = self.ops.describe_with_checksum(tensor, self._statistics, self._checksum, self._projection)
        if self._note_memory is not None:
            self._note_memory(tensor, node)
        if NO_DATA in node and self.await_values(tensor, save_as, node):
            return node
        if self._always_projection and KEY not in node:
            self.ops.project(tensor, node)
        return node

    def await_values(self, tensor: T_contra, save_as: str, node: dict[str, Any]) -> bool:
        """Complete ``node`` when the values of a tensor without any have arrived; return False where none will."""

        def complete(values: Any) -> None:
            measured = self.leaf(values, save_as)
            node.update((key, measured[key]) for key in measured.keys() - _FACTS)
            node.pop(NO_DATA, None)

        arrivals = self.ops.arrivals
        return arrivals is not None and arrivals.add(tensor, complete)

    def settle(self) -> None:
        """Return when every node made so far is complete."""
        self.ops.settle()

    def move(self, folder: Path) -> None:
        """Save tensors into ``folder`` from now on, if any are saved."""
        if self.folder is not None:
            self.folder = folder

    def describe(self, tensor: T_contra) -> dict[str, Any]:
        """Return the node with the facts and statistics, which are measured while the call waits."""
        node = self.ops.describe(tensor, self._statistics, self._projection)
        if self._note_memory is not None:
            self._note_memory(tensor, node)
        if self._always_projection and KEY not in node:
            self.ops.project(tensor, node)
        return node

    def complete(self, tensor: T_contra, save_as: str, node: dict[str, Any]) -> None:
        """Add to ``node`` what takes long: the name of the saved file and the checksum."""
        if save_as:
            self.save(tensor, save_as, node)
        if self._checksum is not None:
            node["md5"] = self.ops.checksum(tensor, self._checksum)

    def save(self, tensor: T_contra, save_as: str, node: dict[str, Any]) -> None:
        """Write the file of ``tensor`` and name it in ``node``. After an error of the disk nothing more is saved."""
        if self.folder is None or self._disk_failed or (self.account is not None and self.account.reached):
            return
        name = file_name(save_as, self.ops.suffix)
        try:
            saved = self.ops.save(tensor, f"{self.folder}/{name}")  # a Path would cost as much as a small file's bytes
            if saved and self.account is not None:
                self.account.add_tensor(f"{self.folder}/{name}")
        except OSError as error:
            let_through(error)
            self._disk_failed = True
            reason = error.strerror or error
            logger.error(
                "cannot save tensors in %s (%s): statistics go on without them. %s.",
                self.folder,
                reason,
                disk_remedy(error),
            )
            return
        if saved:
            node["data_name"] = name


_CANNOT_SLICE = (RuntimeError, TypeError, IndexError, NotImplementedError, ValueError)


class SlicedTensors:
    """Pass a part of each tensor on to ``nodes`` (implements ``TensorNodes``).

    Args:
        nodes: measures and saves the part.
        items: the cuts of the configuration.
        tokens: returns one more cut, for the tokens of one request; it changes with every start.
        inner: returns the tensor that is cut (``TensorOps.below_transforms``).
    """

    def __init__(
        self,
        nodes: TensorNodes,
        items: Sequence[SliceItem],
        tokens: Callable[[], SliceItem | None],
        inner: Callable[[Any], Any],
    ) -> None:
        self._nodes = nodes
        self._leaf = nodes.leaf
        self._items = items
        self._tokens = tokens
        self._inner = inner

    @property
    def folder(self) -> Path | None:
        """The folder of tensor files; None when no tensors are kept."""
        return self._nodes.folder

    def leaf(self, tensor: Any, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of the cut tensor; gradient facts are those of the whole one."""
        part = cut(self._inner(tensor), self._items)
        tokens = self._tokens()
        if tokens is not None:
            part = cut(part, [tokens])
        node = self._leaf(part, save_as, around)
        if part is not tensor and "requires_grad" in node:
            node["requires_grad"] = tensor.requires_grad  # a view made under no_grad says False
        return node

    def settle(self) -> None:
        """Return when every node made so far is complete."""
        self._nodes.settle()

    def move(self, folder: Path) -> None:
        """Save tensors into ``folder`` from now on, if any are saved."""
        self._nodes.move(folder)


def cut(tensor: Any, items: Sequence[SliceItem]) -> Any:
    """Return ``tensor`` with ``items`` applied in order; the same object when no item applies to it."""
    for item in items:
        shape = tensor.shape
        if item.dim >= len(shape) or (item.size is not None and item.size != shape[item.dim]):
            continue
        try:
            tensor = tensor[(slice(None),) * item.dim + (slice(item.begin, item.end),)]
        except _CANNOT_SLICE:
            continue
    return tensor


_INPUT_SECTIONS = ("input_args", "input_kwargs", "input", "parameters")


def split_sides(body: dict[str, Node]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the sections of a body that went into the call, and those that came out of it.

    The gradient of a parameter, which is the only section of its entry, is an output.
    """
    inputs = {key: body[key] for key in _INPUT_SECTIONS if key in body}
    outputs = {key: value for key, value in body.items() if key not in inputs}
    return inputs, outputs


def tensor_nodes(node: Node) -> Iterator[dict[str, Any]]:
    """Yield the node of every tensor below ``node``."""
    return (leaf.raw for leaf in values_below(node) if is_tensor(leaf.raw))
