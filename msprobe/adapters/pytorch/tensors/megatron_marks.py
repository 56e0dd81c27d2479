"""Which part of a parameter a rank holds, as Megatron's own marks on parameters say; MindSpeed sets the same ones.

- ``tensor_model_parallel`` with ``partition_dim``: the parameter is cut along this axis over the ranks of tensor
  parallelism. How the parts interleave (``partition_stride``) is left out: no statistic of the whole depends on it.
- ``sequence_parallel``: each of these ranks holds the whole.
- ``allreduce``, False for a parameter of an expert: the ranks are those that share each expert.

A mark that is False says nothing: that is what every parameter has that nobody marked. The ranks are those of the
module (``tp_group``), or those that Megatron knows where the program has imported it; Megatron is never imported here.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch.distributed as dist
from torch import nn

from msprobe.core.dump.record.declared_shards import infer_part
from msprobe.core.dump.session.debugger import models_in
from msprobe.core.interruption import imported_whole, let_through

_STATE = "megatron.core.parallel_state"
_READ: dict[int, weakref.ref[nn.Module]] = {}
_GROUP, _GROUP_OF_EXPERTS = "get_tensor_model_parallel_group", "get_expert_tensor_parallel_group"


def read_marks(model: Any) -> None:
    """Read the marks of the parameters of a module, or of several modules, for all later records of them.

    A model is read once; anything else is left to those who need a model.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return
    for part in models_in(model):
        if isinstance(part, nn.Module) and id(part) not in _READ:
            _READ[id(part)] = weakref.ref(part, functools.partial(_READ.pop, id(part)))
            for module in part.modules():
                _read(module)


def _read(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        marks = vars(parameter)
        cut, axis = bool(marks.get("tensor_model_parallel")), marks.get("partition_dim")
        whole, expert = bool(marks.get("sequence_parallel")), _is_of_expert(module, marks)
        if cut and not whole and type(axis) is int and 0 <= axis < parameter.dim():
            infer_part(parameter, axis, _ranks(module, expert=expert))
        elif whole and not cut and not expert:
            infer_part(parameter, None, _ranks(module, expert=False))


def _is_of_expert(module: nn.Module, marks: dict[str, Any]) -> bool:
    return not marks.get("allreduce", True) or bool(getattr(module, "is_expert", False))


def _ranks(module: nn.Module, *, expert: bool) -> list[int] | None:
    """Return the ranks that share the parameters of a module; None where nothing tells."""
    group = getattr(module, "tp_group", None)
    if not isinstance(group, dist.ProcessGroup):
        find = getattr(imported_whole(_STATE), _GROUP_OF_EXPERTS if expert else _GROUP, None)
        try:
            group = find() if find is not None else None
        except AssertionError as error:  # Megatron's groups are not made yet
            let_through(error)
            return None
    try:
        return list(dist.get_process_group_ranks(group)) if isinstance(group, dist.ProcessGroup) else None
    except (KeyError, ValueError, RuntimeError) as error:  # a group that was destroyed
        let_through(error)
        return None
