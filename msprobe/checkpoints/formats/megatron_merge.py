"""Merges the parts of a Megatron checkpoint into the tensors of the whole model.

``RankGrid`` holds all parts by their ranks, and ``merge_parts`` merges them in three steps.

*Layers* are numbered from 0 in every part. Parts are ordered as the data flows: the first virtual stage of all pipeline
ranks, then the second of all. The number of the first layer of a part is therefore the number of layers before it,
also where the stages are of different lengths.

*Shards* of one weight on several tensor-parallel ranks are joined (``join_shards``): column-parallel weights are split
along axis 0, row-parallel ones along axis 1; all others are copies and have to be equal. A gated ``linear_fc1`` holds
gate and up projection in every shard: in the whole weight all gates come first, then all ups. Source of the splits:
Megatron-LM, ``megatron/core/tensor_parallel/layers.py`` and ``tools/checkpoint``.

*Experts* get their numbers in the whole model (``global_name``): rank e of a job with n experts per rank holds the
experts e*n to e*n + n - 1, as ``experts.local_experts.0.linear_fc1.weight`` or ``experts.linear_fc1.weight0``. In an
older form (``join_grouped_experts``) one tensor holds all experts of a rank: ``experts.weight1`` is [hidden, n * ffn]
and means n matrices [hidden, ffn]; ``experts.weight2`` is [n * ffn, hidden] and means n matrices [ffn, hidden];
tensor-parallel ranks split ffn. Source: Megatron-LM, ``megatron/core/transformer/moe/experts.py``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.checkpoints.formats.megatron_names import core_name, has_decoder
from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensor_files.blocks import Block, assembled, rows
from msprobe.core.tensors.dtypes import find_dtype


class RankPosition(NamedTuple):
    """Tensor, pipeline and expert rank."""

    tensor: int
    pipeline: int
    expert: int


@dataclass(frozen=True, slots=True)
class RankGrid:
    """The parts of a checkpoint.

    Attributes:
        cells: for every position one part of the model, or one part per virtual pipeline stage.
        arguments: the arguments of the program; empty when they were not stored.
    """

    cells: Mapping[RankPosition, list[NamedTensors]]
    arguments: Mapping[str, Any]

    @property
    def tensor(self) -> int:
        """Return the number of tensor-parallel ranks."""
        return max(position.tensor for position in self.cells) + 1

    @property
    def pipeline(self) -> int:
        """Return the number of pipeline ranks."""
        return max(position.pipeline for position in self.cells) + 1

    @property
    def expert(self) -> int:
        """Return the number of expert ranks."""
        return max(position.expert for position in self.cells) + 1

    @property
    def chunks(self) -> int:
        """Return the number of virtual pipeline stages per rank."""
        return max(len(chunks) for chunks in self.cells.values())

    @property
    def gated(self) -> bool:
        """Return whether linear_fc1 holds gate and up projection, one after the other, in every shard."""
        return self.arguments.get("swiglu") is True or self.arguments.get("gated_linear_unit") is True

    def local_experts(self) -> int | None:
        """Return the number of experts per rank; None when the arguments do not determine it."""
        experts = self.arguments.get("num_experts")
        if isinstance(experts, list):
            experts = experts[0] if len(experts) == 1 else None
        return experts // self.expert if isinstance(experts, int) and experts % self.expert == 0 else None


_LAYER = re.compile(r"((?:.*?\.)?layers\.)(\d+)(\..*)")

_Shards = dict[tuple[int, int], LazyTensor]
"""The shards of one weight, by tensor and expert rank."""


def merge_parts(grid: RankGrid, layout: str) -> NamedTensors:
    """Return the whole model; ``layout`` describes the checkpoint in words.

    Raises:
        ReadError: a rank lacks parts of the model that other ranks have.
    """
    parts = [part for chunks in grid.cells.values() for part in chunks]
    keep_encoder = has_decoder(name for part in parts for name in part.tensors)
    weights_of: dict[str, list[LazyTensor]] = defaultdict(list)
    before: dict[str, int] = defaultdict(int)
    for chunk in range(grid.chunks):
        for stage in range(grid.pipeline):
            weights = _stage_weights(grid, (chunk, stage), keep_encoder)
            layers = _layer_numbers(weights)
            # Some programs store the layers with the numbers of the whole model; these numbers stay.
            offsets = {head: 0 if min(own) == before[head] else before[head] for head, own in layers.items()}
            for name, shards in weights.items():
                weights_of[_shift_layer(name, offsets)].append(_join(name, shards, grid))
            before.update({head: max(own) + offsets[head] + 1 for head, own in layers.items()})
    tensors = {name: copies(weights) for name, weights in weights_of.items()}
    return NamedTensors(layout, tensors, list(dict.fromkeys(name for part in parts for name in part.skipped)))


def _stage_weights(grid: RankGrid, position: tuple[int, int], keep_encoder: bool) -> dict[str, _Shards]:
    """Return the weights of one (virtual) pipeline stage by name; experts have their numbers in the whole model."""
    chunk, stage = position
    weights: dict[str, _Shards] = defaultdict(dict)
    for expert in range(grid.expert):
        for tensor in range(grid.tensor):
            chunks = grid.cells[RankPosition(tensor, stage, expert)]
            if chunk >= len(chunks):
                raise ReadError(f"pipeline rank {stage}, tensor rank {tensor}: virtual stage {chunk} is missing")
            names = _core_names(chunks[chunk].tensors, keep_encoder)
            first = expert * count_local(names)
            for name, weight in names.items():
                weights[global_name(name, first)][tensor, expert] = weight
    return weights


def _core_names(tensors: Mapping[str, LazyTensor], keep_encoder: bool) -> dict[str, LazyTensor]:
    """Return tensors by their names in Megatron Core; a tensor whose new name exists already keeps its own name."""
    renamed: dict[str, LazyTensor] = {}
    for name, weight in tensors.items():
        new_name = core_name(name, keep_encoder=keep_encoder)
        renamed[name if new_name in renamed else new_name] = weight
    return renamed


def _join(name: str, shards: _Shards, grid: RankGrid) -> LazyTensor:
    """Return the whole weight ``name`` from the shards of all tensor and expert ranks."""
    if is_grouped(name):
        return join_grouped_experts(name, shards, grid.local_experts(), gated=grid.gated)
    wholes: list[LazyTensor] = []
    for expert in sorted({expert for _, expert in shards}):
        row = [shards[key] for key in sorted(shards) if key[1] == expert]
        if len(row) < grid.tensor:
            return unreadable(row[0], "some tensor-parallel ranks lack it")
        wholes.append(join_shards(name, row, gated=grid.gated))
    return copies(wholes)


def _layer_numbers(names: Iterable[str]) -> dict[str, set[int]]:
    """Return the numbers of the layers below each head, such as ``decoder.layers.``."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        if match := _LAYER.fullmatch(name):
            numbers[match[1]].add(int(match[2]))
    return numbers


def _shift_layer(name: str, offsets: Mapping[str, int]) -> str:
    """Return a name with the number of its layer in the whole model; ``offsets`` are by head (``_layer_numbers``)."""
    match = _LAYER.fullmatch(name)
    return f"{match[1]}{int(match[2]) + offsets[match[1]]}{match[3]}" if match else name


# ---------------------------------------------------------------- shards

_COLUMN = re.compile(
    r"(.*\.)?((linear_qkv|linear_fc1|linear_q_proj|linear_q_up_proj|linear_kv_up_proj)\.(weight|bias)\d*"
    r"|word_embeddings(_for_head)?\.weight|(output_layer|lm_head)\.(weight|bias))"
)
_ROW = re.compile(r"(.*\.)?(linear_fc2|linear_proj)\.weight\d*")
_FC1 = re.compile(r"(.*\.)?linear_fc1\.(weight|bias)\d*")


def join_shards(name: str, shards: Sequence[LazyTensor], *, gated: bool) -> LazyTensor:
    """Return the whole weight ``name`` from its shards in the order of their ranks.

    A weight that cannot be joined raises ReadError when it is read.
    """
    if len(shards) == 1:
        return shards[0]
    if _COLUMN.fullmatch(name):
        return _join_gated(shards) if gated and _FC1.fullmatch(name) else concatenated(shards, 0)
    return concatenated(shards, 1) if _ROW.fullmatch(name) else copies(shards)


def concatenated(shards: Sequence[LazyTensor], axis: int) -> LazyTensor:
    """Return shards concatenated along ``axis``."""
    first = shards[0]
    fit = all(
        shard.dtype == first.dtype and _shape_off_axis(shard, axis) == _shape_off_axis(first, axis) for shard in shards
    )
    if axis >= len(first.shape) or not fit:
        return unreadable(first, f"shards of shapes {_shapes(shards)} do not fit together along axis {axis}")
    shape = list(first.shape)
    shape[axis] = sum(shard.shape[axis] for shard in shards)
    blocks, at = [], [0] * len(shape)
    for shard in shards:
        blocks.append(Block(tuple(at), shard))
        at[axis] += shard.shape[axis]
    return assembled(tuple(shape), blocks) if find_dtype(first.dtype) else unreadable(first, f"type {first.dtype}")


def copies(shards: Sequence[LazyTensor]) -> LazyTensor:
    """Return a weight that every rank holds as a copy; whether the copies are equal is checked when it is read."""
    first = shards[0]
    if len(shards) == 1:
        return first
    if any((shard.shape, shard.dtype) != (first.shape, first.dtype) for shard in shards):
        return unreadable(first, f"ranks hold copies of different shapes or types: {_shapes(shards)}")
    in_ranges = all(shard.read_range is not None for shard in shards)
    ranges = partial(_read_ranges_of_copies, shards) if in_ranges else None
    return LazyTensor(first.shape, first.dtype, lambda: _equal_copies([shard.read() for shard in shards]), ranges)


def unreadable(like: LazyTensor, reason: str) -> LazyTensor:
    """Return a tensor that raises ReadError with this reason when it is read."""

    def read() -> NDArray[Any]:
        raise ReadError(reason)

    return LazyTensor(like.shape, like.dtype, read)


def reshaped_like(shape: tuple[int, ...], like: LazyTensor, read: Callable[[], NDArray[Any]]) -> LazyTensor:
    """Return a tensor with the dtype of ``like``, and another shape and read function."""
    return LazyTensor(shape, like.dtype, read)


def _join_gated(shards: Sequence[LazyTensor]) -> LazyTensor:
    """Return the gates of all shards, then their up projections."""
    if any(not shard.shape or shard.shape[0] % 2 for shard in shards):
        return unreadable(
            shards[0], f"shards of shapes {_shapes(shards)} have no two halves for gate and up projection"
        )
    sizes = [shard.shape[0] // 2 for shard in shards]
    gates = [rows(shard, 0, half) for shard, half in zip(shards, sizes, strict=True)]
    ups = [rows(shard, half, 2 * half) for shard, half in zip(shards, sizes, strict=True)]
    return concatenated([*gates, *ups], 0)


def _read_ranges_of_copies(shards: Sequence[LazyTensor], start: int, stop: int) -> NDArray[Any]:
    return _equal_copies([shard.read_range(start, stop) for shard in shards if shard.read_range is not None])


def _equal_copies(sides: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the elements of the first shard; raise ReadError unless all shards are equal, byte by byte."""
    if any(not np.array_equal(_bytes(sides[0]), _bytes(side)) for side in sides[1:]):
        raise ReadError("ranks hold different values where copies are expected, and no rule says how it is sharded")
    return sides[0]


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _shape_off_axis(shard: LazyTensor, axis: int) -> tuple[int, ...]:
    return shard.shape[:axis] + shard.shape[axis + 1 :]


def _shapes(shards: Sequence[LazyTensor]) -> str:
    return ", ".join(str(list(shard.shape)) for shard in shards)


# ---------------------------------------------------------------- experts

_NUMBER = re.compile(r"(.*\bexperts\.(?:local_experts\.|\w+\.(?:weight|bias)))(\d+)(\..*)?")
_GROUPED = re.compile(r".*\bexperts\.weight([12])")


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


def join_grouped_experts(
    name: str, shards: Mapping[tuple[int, int], LazyTensor], local: int | None, *, gated: bool
) -> LazyTensor:
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
        parts = [_read_experts(row, local, along, gated and along == 1) for row in rows]
        return np.reshape(np.concatenate(parts), shape)

    return reshaped_like(tuple(shape), first, read)


def _read_experts(row: Sequence[LazyTensor], local: int, along: int, gated: bool) -> NDArray[Any]:
    """Return the experts of one expert rank, shape (local, hidden, ffn) or (local, ffn, hidden).

    Args:
        row: the shards of this expert rank, in the order of the tensor-parallel ranks.
        local: number of experts per rank.
        along: the axis of a shard that the experts share.
        gated: whether ffn holds gates and up projections.
    """
    hidden = row[0].shape[1 - along]
    shape = (local, hidden, -1) if along == 1 else (local, -1, hidden)
    parts = [np.ascontiguousarray(shard.read()).reshape(shape) for shard in row]
    axis = 1 + along
    if not gated:
        return np.concatenate(parts, axis)
    halves = [np.split(part, 2, axis) for part in parts]
    return np.concatenate([half[0] for half in halves] + [half[1] for half in halves], axis)
