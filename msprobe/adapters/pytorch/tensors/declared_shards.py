"""Which part of a tensor of the whole model a rank holds, said by the program (``msprobe.pytorch.parallel.shard``).

What was said is an attribute of the tensor: it goes with a parameter for as long as that lives, and with an activation
to every record of this very tensor. The records have it under the key ``shard``. Of a parameter of which the program
said nothing, the same key has what its marks tell (``megatron_marks``). In the same way a tensor that a module was fed
knows how far the live one was from it (key ``fed``).
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.store.record_walk import FED, SHARD

ATTRIBUTE = "_msprobe_shard"
_INFERRED_ATTRIBUTE = "_msprobe_inferred_shard"
_FED_ATTRIBUTE = "_msprobe_fed"
USED: set[type] = set()
"""The types of the tensors that have one of the attributes: recording does not look for them on any other tensor."""
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
    is_module = isinstance(value, nn.Module)
    if not is_module and not isinstance(value, nn.Parameter):
        if process_debugger.peek() is None or torch.compiler.is_compiling():
            return value  # nobody will record this activation, or its compiled twin
        if not isinstance(value, torch.Tensor):
            raise _error(f"expected a tensor or a module, got {argument_text(value)}")
    tensors = list(value.parameters()) if isinstance(value, nn.Module) else [value]
    fitting = [each for each in tensors if _has_axis(each, dim)]
    if not fitting:
        shapes = ", ".join(str(tuple(each.shape)) for each in tensors) or "no parameters"
        raise _error(f"dim={argument_text(dim)} is no axis of {type(value).__name__} ({shapes})")
    ranks = _ranks(group)
    if len(ranks) > 1:
        for each in fitting:
            _declare(each, dim, ranks)
    return value


def declared(tensor: Any, node: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a tensor, with what was declared of it."""
    attributes = tensor.__dict__
    parts = attributes.get(ATTRIBUTE) or attributes.get(_INFERRED_ATTRIBUTE)
    if parts is not None:
        node[SHARD] = parts
    if _FED_ATTRIBUTE in attributes:
        node[FED] = attributes[_FED_ATTRIBUTE]
    return node


def infer_part(parameter: nn.Parameter, dim: int | None, ranks: list[int] | None) -> None:
    """Note what is known of a parameter without the program saying it; what ``shard`` says comes first.

    Args:
        dim: the axis that is cut; None where each rank holds the whole.
        ranks: those that hold it; None where they are not known.
    """
    if ranks is None or len(ranks) > 1:
        _set(parameter, _INFERRED_ATTRIBUTE, [{"dim": dim, "group": ranks}])


def note_fed(tensor: torch.Tensor, distance: float) -> None:
    """Note of a tensor that a module is fed how far the live one was from it."""
    _set(tensor, _FED_ATTRIBUTE, distance)


def _declare(tensor: Any, dim: int | None, ranks: list[int]) -> None:
    axis = None if dim is None else dim % tensor.dim()
    others = [part for part in getattr(tensor, ATTRIBUTE, ()) if part["group"] != ranks]
    _set(tensor, ATTRIBUTE, [*others, {"dim": axis, "group": ranks}])


def _set(tensor: Any, attribute: str, value: Any) -> None:
    setattr(tensor, attribute, value)
    USED.add(type(tensor))


def _has_axis(tensor: torch.Tensor, dim: Any) -> bool:
    return dim is None or (type(dim) is int and -tensor.dim() <= dim < tensor.dim())


def _ranks(group: Any) -> list[int]:
    if not dist.is_available() or not dist.is_initialized():
        if group is None:
            return [0]  # the same program on one process holds everything
        raise _error("a group was given, but torch.distributed is not initialised; call init_process_group first")
    if group is not None and not isinstance(group, dist.ProcessGroup):
        raise _error(f"group={argument_text(group)} is no process group that this rank is a member of")
    try:
        return list(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):
        raise _error("the group is none that torch.distributed knows; was it destroyed?") from None


def _error(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"shard: {text}")
