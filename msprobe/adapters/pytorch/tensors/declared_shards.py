"""Which part of a tensor of the whole model a rank holds, as the program says it (``msprobe.pytorch.parallel.shard``).

What is noted of the tensors is in ``core/dump/record/declared_shards.py``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from msprobe.core.dump.record.declared_shards import declare, shard_error
from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import argument_text
from msprobe.core.interruption import let_through

V = TypeVar("V", torch.Tensor, nn.Module)


def shard(value: V, dim: int | None, group: Any = None) -> V:
    """Say which part of a tensor of the whole model this rank holds, and return the tensor or module itself.

    The ranks of ``group`` hold the parts in their order in the group; they may be of unequal length. Nothing is
    communicated. A tensor that is cut along several axes, over several groups, is declared once for each.

    Args:
        value: a tensor, or a module for all its parameters that have this axis (a bias has no second one).
        dim: the axis of the cut, which may be counted from the end; None says that each rank holds the whole.
        group: the process group; None for all ranks.

    Raises:
        MsprobeException: ``dim`` is no axis of the tensor, or the group is none of this rank.
    """
    if not isinstance(value, (nn.Module, nn.Parameter)):
        if process_debugger.peek() is None or torch.compiler.is_compiling():
            return value  # nobody will record this activation, or its compiled twin
        if not isinstance(value, torch.Tensor):
            raise shard_error(f"expected a tensor or a module, got {argument_text(value)}")
    tensors = list(value.parameters()) if isinstance(value, nn.Module) else [value]
    declare(value, tensors, dim, lambda: _ranks(group))
    return value


def _ranks(group: Any) -> list[int]:
    if not dist.is_available() or not dist.is_initialized():
        if group is None:
            return [0]  # the same program on one process holds everything
        raise shard_error("a group was given, but torch.distributed is not initialised; call init_process_group first")
    if group is not None and not isinstance(group, dist.ProcessGroup):
        raise shard_error(f"group={argument_text(group)} is no process group that this rank is a member of")
    try:
        return list(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError) as error:
        let_through(error)
        raise shard_error("the group is none that torch.distributed knows; was it destroyed?") from None
