"""Describe in dump.json the types of arguments that MindSpore adds to those of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mindspore
from mindspore.common import dtype as dtypes

from msprobe.adapters.mindspore.graph_value import GraphValue
from msprobe.core.capture.describe import Expansion, Handler, Node


class MindSporeValues:
    """Implements ``Values`` for MindSpore."""

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, (mindspore.Tensor, GraphValue))

    def handlers(self) -> Mapping[type, Handler | Expansion]:
        return {
            type(kind): _dtype for kind in (mindspore.float32, mindspore.int64, mindspore.bool_, mindspore.bfloat16)
        }

    def keyed(self) -> Mapping[str, Handler]:
        return {"dtype": _dtype_argument}


def _dtype(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": "mindspore.dtype", "value": str(value)}


def _dtype_argument(value: Any, place: str, around: tuple[int, ...]) -> Node:
    known = isinstance(value, (dtypes.Type, str, int, float))
    return _dtype(value, place, around) if known else None
