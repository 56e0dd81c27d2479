"""Joins the shards of one weight on several tensor-parallel ranks.

Column-parallel weights are split along axis 0, row-parallel ones along axis 1; all others are copies, and have to be
equal. A gated ``linear_fc1`` holds gate and up projection in every shard: all gates come first, then all ups.

Source of the splits: Megatron-LM, ``megatron/core/tensor_parallel/layers.py`` and ``tools/checkpoint``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.tensors.stored import StoredTensor

_COLUMN = re.compile(
    r"(.*\.)?((linear_qkv|linear_fc1|linear_q_proj|linear_q_up_proj|linear_kv_up_proj)\.(weight|bias)\d*"
    r"|word_embeddings(_for_head)?\.weight|(output_layer|lm_head)\.(weight|bias))"
)
_ROW = re.compile(r"(.*\.)?(linear_fc2|linear_proj)\.weight\d*")
_FC1 = re.compile(r"(.*\.)?linear_fc1\.(weight|bias)\d*")


def join_shards(name: str, shards: Sequence[StoredTensor], *, gated: bool) -> StoredTensor:
    """Return the whole weight ``name`` from its shards in the order of their ranks.

    A weight that cannot be joined raises ReadError when it is read.
    """
    if len(shards) == 1:
        return shards[0]
    if _COLUMN.fullmatch(name):
        return _split_gates(shards) if gated and _FC1.fullmatch(name) else concatenated(shards, 0)
    return concatenated(shards, 1) if _ROW.fullmatch(name) else copies(shards)


def concatenated(shards: Sequence[StoredTensor], axis: int) -> StoredTensor:
    """Return shards concatenated along ``axis``."""
    first = shards[0]
    fit = all(shard.dtype == first.dtype and _off_axis(shard, axis) == _off_axis(first, axis) for shard in shards)
    if axis >= len(first.shape) or not fit:
        return unreadable(first, f"shards of shapes {_shapes(shards)} do not fit together along axis {axis}")
    shape = list(first.shape)
    shape[axis] = sum(shard.shape[axis] for shard in shards)
    return StoredTensor(tuple(shape), first.dtype, lambda: np.concatenate([shard.read() for shard in shards], axis))


def copies(shards: Sequence[StoredTensor]) -> StoredTensor:
    """Return a weight that every rank holds as a copy; whether the copies are equal is checked when it is read."""
    first = shards[0]
    if len(shards) == 1:
        return first
    if any((shard.shape, shard.dtype) != (first.shape, first.dtype) for shard in shards):
        return unreadable(first, f"ranks hold copies of different shapes or types: {_shapes(shards)}")
    return StoredTensor(first.shape, first.dtype, partial(_same, shards))


def unreadable(like: StoredTensor, reason: str) -> StoredTensor:
    """Return a tensor that raises ReadError with this reason when it is read."""

    def read() -> NDArray[Any]:
        raise ReadError(reason)

    return StoredTensor(like.shape, like.dtype, read)


def reshaped_like(shape: tuple[int, ...], like: StoredTensor, read: Callable[[], NDArray[Any]]) -> StoredTensor:
    """Return a tensor with the dtype of ``like``, and another shape and read function."""
    return StoredTensor(shape, like.dtype, read)


def _split_gates(shards: Sequence[StoredTensor]) -> StoredTensor:
    whole = concatenated(shards, 0)
    if any(not shard.shape or shard.shape[0] % 2 for shard in shards):
        return unreadable(
            shards[0], f"shards of shapes {_shapes(shards)} have no two halves for gate and up projection"
        )

    def read() -> NDArray[Any]:
        halves = [np.split(shard.read(), 2) for shard in shards]
        return np.concatenate([half[0] for half in halves] + [half[1] for half in halves])

    return reshaped_like(whole.shape, whole, read)


def _same(shards: Sequence[StoredTensor]) -> NDArray[Any]:
    first = shards[0].read()
    for shard in shards[1:]:
        if not np.array_equal(_bytes(first), _bytes(shard.read())):
            raise ReadError("ranks hold different values where copies are expected, and no rule says how it is sharded")
    return first


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _off_axis(shard: StoredTensor, axis: int) -> tuple[int, ...]:
    return shard.shape[:axis] + shard.shape[axis + 1 :]


def _shapes(shards: Sequence[StoredTensor]) -> str:
    return ", ".join(str(list(shard.shape)) for shard in shards)
