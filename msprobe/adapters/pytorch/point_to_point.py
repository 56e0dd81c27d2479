"""``P2POp`` and ``batch_isend_irecv`` while ``isend`` and ``irecv`` are wrapped.

torch compares the two by identity, so an operation must name the function that its module holds at that moment. An
operation always keeps the original, whatever it was made from, and names the wrapper only inside a batch. So operations
that are made before a start, or used after a stop, work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d

from msprobe.core.capture.patch import Patches

POINT_TO_POINT = ("isend", "irecv")


def plan_operations(patches: Patches, originals: dict[Any, Any]) -> None:
    """Plan that ``P2POp`` accepts the wrappers of ``isend`` and ``irecv`` (keys) as well as the originals (values)."""
    check, initialise = c10d._check_op, c10d.P2POp.__init__
    accepted = set(originals.values())

    def check_op(op: Any) -> None:
        if originals.get(op, op) not in accepted:
            check(op)

    def init(self: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, originals.get(op, op), *args, **kwargs)

    patches.plan(c10d, "_check_op", check_op)
    patches.plan(c10d.P2POp, "__init__", init)


@contextlib.contextmanager
def present_operations(operations: Any, originals: dict[Any, Any]) -> Iterator[None]:
    """Let ``operations`` name the functions that the module holds now as isend and irecv, inside this context."""
    present = {originals.get(held, held): held for held in (getattr(c10d, name) for name in POINT_TO_POINT)}
    batch = [op for op in operations if isinstance(op, c10d.P2POp)] if isinstance(operations, list) else []
    kept = [op.op for op in batch]
    for op in batch:
        op.op = present.get(op.op, op.op)
    try:
        yield
    finally:
        for op, function in zip(batch, kept, strict=True):
            op.op = function


class BatchOutputs:
    """The operations of a batch, each as it is when its work is done.

    A tensor is copied when its work is done and other works are outstanding, because the program may use the buffer
    again from then on.
    """

    def __init__(self, operations: Sequence[Any], rest: tuple[Any, ...], one_work_each: bool) -> None:
        self._operations = list(operations)
        self._rest = rest
        self._one_work_each = one_work_each

    def on_work(self, position: int) -> None:
        """Copy the tensor of the operation at ``position``, whose work is done."""
        if self._one_work_each:
            operation = self._operations[position]
            with torch.no_grad():
                self._operations[position] = _with_tensor(operation, operation.tensor.detach().clone())

    def __call__(self) -> tuple[Any, ...]:
        return (self._operations, *self._rest)


def _with_tensor(operation: Any, tensor: torch.Tensor) -> Any:
    other = object.__new__(type(operation))
    vars(other).update(vars(operation), tensor=tensor)
    return other
