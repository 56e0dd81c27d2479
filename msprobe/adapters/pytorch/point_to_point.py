"""``P2POp`` and ``batch_isend_irecv`` while ``isend`` and ``irecv`` are wrapped.

torch tells the two apart by identity, so an operation must name the function that its module holds at that moment:
an operation always keeps the original, whatever it was made from, and names the wrapper only inside a batch. Thus
operations made before a start, or used after a stop, work as ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d

from msprobe.core.capture.patch import Patches

NAMES = ("isend", "irecv")


def plan_operations(patches: Patches, originals: dict[Any, Any]) -> None:
    """Let ``P2POp`` take the wrappers of ``isend`` and ``irecv`` (keys) as well as the originals (values)."""
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
    """Inside, ``operations`` name what the module holds now as isend and irecv."""
    present = {originals.get(held, held): held for held in (getattr(c10d, name) for name in NAMES)}
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
    """The operations of a batch as they are when each is done.

    What arrived is copied when its work is done, if others are still outstanding: the buffer is the user's again from
    then on.
    """

    def __init__(self, operations: Sequence[Any], rest: tuple[Any, ...], one_work_each: bool) -> None:
        self._operations = list(operations)
        self._rest = rest
        self._one_work_each = one_work_each

    def on_work(self, position: int) -> None:
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
