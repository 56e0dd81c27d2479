"""Weights of experts: their numbers in the whole model, and the older form with all experts of a rank in one tensor.

Rank e of a job with n experts per rank holds the experts e*n to e*n + n - 1, numbered from 0:
``experts.local_experts.0.linear_fc1.weight``, or ``experts.linear_fc1.weight0``. In the older grouped form
``experts.weight1`` is [hidden, n * ffn] and means n matrices [hidden, ffn]; ``experts.weight2`` is [n * ffn, hidden]
and means n matrices [ffn, hidden]; tensor-parallel ranks split ffn.

Source: Megatron-LM, ``megatron/core/transformer/moe/experts.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.configcheck.megatron.shards import reshaped_like, unreadable
from msprobe.core.tensors.stored import StoredTensor

_NUMBER = re.compile(r"(.*\bexperts\.(?:local_experts\.|\w+\.(?:weight|bias)))(\d+)(\..*)?")
_GROUPED = re.compile(r".*\bexperts\.weight([12])")

Shards = Mapping[tuple[int, int], StoredTensor]
"""Shards by tensor and expert rank."""


def count_local(names: Iterable[str]) -> int:
    """Return how many numbered experts these names contain."""
    return max((int(match[2]) + 1 for name in names if (match := _NUMBER.fullmatch(name))), default=0)


def global_name(name: str, first: int) -> str:
    """Return the name with the number of the expert in the whole model; ``first`` is the first number of the rank."""
    match = _NUMBER.fullmatch(name)
    return f"{match[1]}{int(match[2]) + first}{match[3] or ''}" if match else name


def is_grouped(name: str) -> bool:
    """Return whether the tensor ``name`` holds all experts of a rank."""
    return _GROUPED.fullmatch(name) is not None


def join_grouped_experts(name: str, shards: Shards, local: int | None, *, gated: bool) -> StoredTensor:
    """Return the experts of all ranks in one tensor of the same form; ``local`` is the number of experts per rank."""
    first = next(iter(shards.values()))
    if len(shards) == 1:
        return first
    match = _GROUPED.fullmatch(name)
    assert match is not None
    along = 1 if match[1] == "1" else 0
    tensors = max(tensor for tensor, _ in shards) + 1
    if any(shard.shape != first.shape or len(shard.shape) != 2 for shard in shards.values()):
        return unreadable(first, "ranks hold shards of different shapes")
    if not local or first.shape[along] % (local * (2 if gated else 1)):
        return unreadable(first, "how many experts a rank holds is not known (no num_experts in the checkpoint)")
    shape = list(first.shape)
    shape[along] *= len(shards)
    experts = range(len(shards) // tensors)
    rows = [[shards[tensor, expert] for tensor in range(tensors)] for expert in experts]

    def read() -> NDArray[Any]:
        parts = [_rank(row, local, along, gated and along == 1) for row in rows]
        return np.reshape(np.concatenate(parts), shape)

    return reshaped_like(tuple(shape), first, read)


def _rank(row: Sequence[StoredTensor], local: int, along: int, gated: bool) -> NDArray[Any]:
    """Return the experts of one expert rank, one per index of axis 0."""
    hidden = row[0].shape[1 - along]
    shape = (local, hidden, -1) if along == 1 else (local, -1, hidden)
    parts = [np.ascontiguousarray(shard.read()).reshape(shape) for shard in row]
    axis = 1 + along
    if not gated:
        return np.concatenate(parts, axis)
    halves = [np.split(part, 2, axis) for part in parts]
    return np.concatenate([half[0] for half in halves] + [half[1] for half in halves], axis)
