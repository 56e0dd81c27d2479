"""The JSON form of the argument types that PyTorch adds to those of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from msprobe.core.capture.collectives import group_id
from msprobe.core.capture.describe import Expansion, Handler, Node

_DEVICE_BITS = 64
_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}


class TorchValues:
    """Implements ``Values`` for PyTorch."""

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, torch.Tensor)

    def handlers(self) -> Mapping[type, Handler | Expansion]:
        return {
            torch.Size: _size,
            torch.memory_format: _memory_format,
            torch.dtype: _dtype,
            torch.device: _device,
            torch.layout: _as_text,
            **_distributed_handlers(),
        }

    def by_keyword(self) -> Mapping[str, Handler]:
        return {"dtype": _dtype_argument, "output_dtype": _dtype_argument, "device": _device_argument}


def _size(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "torch.Size", "value": list(value)}


def _memory_format(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "torch.memory_format", "format": _MEMORY_FORMATS.get(value, str(value))}


def _dtype(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "torch.dtype", "value": str(value)}


def _device(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "torch.device", "value": str(value)}


def _as_text(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": f"torch.{type(value).__name__}", "value": str(value)}


def _dtype_argument(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return _dtype(value, path, around) if type(value) in (torch.dtype, str, int, float) else None


def _device_argument(value: Any, path: str, around: tuple[int, ...]) -> Node:
    if isinstance(value, torch.device):
        return _device(value, path, around)
    if type(value) is int and value.bit_length() > _DEVICE_BITS:
        return None  # no device: it is recorded like any number
    return {"type": "torch.device", "value": value} if type(value) in (str, int) else None


def _distributed_handlers() -> dict[type, Handler | Expansion]:
    distributed = torch.distributed
    if not distributed.is_available():
        return {}
    return {
        distributed.ProcessGroup: _group,
        distributed.ReduceOp: _reduce_op,
        distributed.ReduceOp.RedOpType: _reduce_op,
        distributed.P2POp: Expansion(_operation),
    }


def _group(value: Any, path: str, around: tuple[int, ...]) -> Node:
    ranks = torch.distributed.get_process_group_ranks(value)
    return {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group_id(tuple(ranks))}


def _operation(value: Any) -> dict[str, Any]:
    """Return the fields of one ``P2POp`` of a batch."""
    return {
        "class_type": "torch.distributed.P2POp",
        "tensor": value.tensor,
        "op": getattr(value.op, "__name__", str(value.op)),
        "peer": value.peer,
        "tag": value.tag,
        "group_id": group_id(tuple(torch.distributed.get_process_group_ranks(value.group))),
    }


def _reduce_op(value: Any, path: str, around: tuple[int, ...]) -> Node:
    return {"type": "torch.distributed.ReduceOp", "value": str(value)}
