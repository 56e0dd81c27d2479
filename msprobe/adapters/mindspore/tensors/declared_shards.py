"""Which part of a tensor of the whole model a rank holds, as a program of MindSpore says it (``shard``).

It is ``msprobe.mindspore.parallel.shard``; what is noted of the tensors: ``core/dump/record/declared_shards.py``.
"""

from __future__ import annotations

from typing import Any, TypeVar

from mindspore import Parameter, Tensor, communication, nn
from mindspore.communication import GlobalComm

from msprobe.core.dump.record.declared_shards import declare, shard_error
from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import argument_text
from msprobe.core.interruption import let_through

V = TypeVar("V", Tensor, nn.Cell)


def shard(value: V, dim: int | None, group: str | None = None) -> V:
    """Say which part of a tensor of the whole model this rank holds, and return the tensor or cell itself.

    The ranks of ``group`` hold the parts in their order in the group; they may be of unequal length. Nothing is
    communicated. A tensor that is cut along several axes, over several groups, is declared once for each. A compiler
    (``ms.jit``, graph mode) cannot see such a call: there parameters are declared, where they are made.

    Args:
        value: a tensor, or a cell for all its parameters that have this axis (a bias has no second one).
        dim: the axis of the cut, which may be counted from the end; None says that each rank holds the whole.
        group: the name of the communication group; None for all ranks.

    Raises:
        MsprobeException: ``dim`` is no axis of the tensor, or the group is none of this rank.
    """
    if not isinstance(value, (nn.Cell, Parameter)):
        if not isinstance(value, Tensor):  # also a module of MSAdapter, which is no cell
            raise shard_error(f"expected a tensor or a cell, got {argument_text(value)}")
        if process_debugger.peek() is None:
            return value  # nobody will record this activation
    tensors = list(value.get_parameters()) if isinstance(value, nn.Cell) else [value]
    declare(value, tensors, dim, lambda: _ranks(group))
    return value


def _ranks(group: Any) -> list[int]:
    if not GlobalComm.INITED:
        if group is None:
            return [0]  # the same program on one process holds everything
        raise shard_error("a group was given, but communication is not initialised; call mindspore.communication.init")
    if group is not None and (not isinstance(group, str) or not group):  # '' is the group of those outside of it
        raise shard_error(f"group={argument_text(group)} is no communication group that this rank is a member of")
    try:
        name = GlobalComm.WORLD_COMM_GROUP if group is None else group
        return [int(rank) for rank in communication.get_process_group_ranks(name)]
    except (TypeError, ValueError, RuntimeError) as error:
        let_through(error)
        raise shard_error(f"MindSpore knows no communication group {argument_text(group)}; was it destroyed?") from None
