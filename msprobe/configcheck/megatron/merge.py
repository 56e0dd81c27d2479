"""Merges all parts of a Megatron checkpoint into the tensors of the whole model.

Layers are numbered from 0 in every part. Parts are ordered as the data flows: the first virtual stage of all pipeline
ranks, then the second of all. The number of the first layer of a part is therefore the number of layers before it,
whether or not the stages are equally long.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msprobe.configcheck.megatron.experts import count_local, global_name, is_grouped, join_grouped_experts
from msprobe.configcheck.megatron.grid import RankGrid, RankPosition
from msprobe.configcheck.megatron.names import core_name, has_decoder
from msprobe.configcheck.megatron.shards import copies, join_shards, unreadable
from msprobe.configcheck.named_tensors import NamedTensors
from msprobe.core.errors import ReadError
from msprobe.core.tensors.stored import StoredTensor

_LAYER = re.compile(r"((?:.*?\.)?layers\.)(\d+)(\..*)")

_Cells = dict[tuple[int, int], StoredTensor]
"""One weight by tensor and expert rank."""


def merge_parts(grid: RankGrid, layout: str) -> NamedTensors:
    """Return the whole model.

    Raises:
        ReadError: a rank lacks parts of the model that other ranks have.
    """
    parts = [part for chunks in grid.cells.values() for part in chunks]
    keep_encoder = has_decoder(name for part in parts for name in part.tensors)
    found: dict[str, list[StoredTensor]] = defaultdict(list)
    before: dict[str, int] = defaultdict(int)
    for chunk in range(grid.chunks):
        for stage in range(grid.pipeline):
            weights = _stage(grid, (chunk, stage), keep_encoder)
            layers = _layers(weights)
            # Some programs store the layers with the numbers of the whole model: they are not counted on.
            offsets = {head: 0 if min(own) == before[head] else before[head] for head, own in layers.items()}
            for name, cells in weights.items():
                found[_shifted(name, offsets)].append(_whole(name, cells, grid))
            before.update({head: max(own) + offsets[head] + 1 for head, own in layers.items()})
    tensors = {name: copies(twice) for name, twice in found.items()}
    return NamedTensors(layout, tensors, list(dict.fromkeys(name for part in parts for name in part.skipped)))


def _stage(grid: RankGrid, place: tuple[int, int], keep_encoder: bool) -> dict[str, _Cells]:
    """Return the weights of one (virtual) pipeline stage by name; experts have their numbers in the whole model."""
    chunk, stage = place
    found: dict[str, _Cells] = defaultdict(dict)
    for expert in range(grid.expert):
        for tensor in range(grid.tensor):
            chunks = grid.cells[RankPosition(tensor, stage, expert)]
            if chunk >= len(chunks):
                raise ReadError(f"pipeline rank {stage}, tensor rank {tensor}: virtual stage {chunk} is missing")
            names = _present(chunks[chunk].tensors, keep_encoder)
            first = expert * count_local(names)
            for name, weight in names.items():
                found[global_name(name, first)][tensor, expert] = weight
    return found


def _present(tensors: Mapping[str, StoredTensor], keep_encoder: bool) -> dict[str, StoredTensor]:
    """Return tensors by their names in Megatron Core; a tensor whose new name exists already keeps its own name."""
    found: dict[str, StoredTensor] = {}
    for name, weight in tensors.items():
        present = core_name(name, keep_encoder=keep_encoder)
        found[name if present in found else present] = weight
    return found


def _whole(name: str, cells: _Cells, grid: RankGrid) -> StoredTensor:
    if is_grouped(name):
        return join_grouped_experts(name, cells, grid.local_experts(), gated=grid.gated)
    rows: list[StoredTensor] = []
    for expert in sorted({expert for _, expert in cells}):
        shards = [cells[key] for key in sorted(cells) if key[1] == expert]
        if len(shards) < grid.tensor:
            return unreadable(shards[0], "some tensor-parallel ranks lack it")
        rows.append(join_shards(name, shards, gated=grid.gated))
    return copies(rows)


def _layers(names: Iterable[str]) -> dict[str, set[int]]:
    """Return the numbers of the layers below each head, such as ``decoder.layers.``."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        if match := _LAYER.fullmatch(name):
            numbers[match[1]].add(int(match[2]))
    return numbers


def _shifted(name: str, offsets: Mapping[str, int]) -> str:
    match = _LAYER.fullmatch(name)
    return f"{match[1]}{int(match[2]) + offsets[match[1]]}{match[3]}" if match else name
