"""All parts of a Megatron checkpoint as the tensors of the whole model.

Layers are numbered from 0 in every part. Parts follow each other as the data flows: the first virtual stage of all
pipeline ranks, then the second of all. So the first layer of a part has the number of layers before it, whether or not
the stages are equally long.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msprobe.configcheck.megatron.experts import count_local, global_name, grouped, is_grouped
from msprobe.configcheck.megatron.grid import Grid, Place
from msprobe.configcheck.megatron.names import has_decoder, present_name
from msprobe.configcheck.megatron.shards import copies, put_together, unreadable
from msprobe.configcheck.named_tensors import NamedTensors
from msprobe.core.errors import ReadError
from msprobe.core.tensors.stored import StoredTensor

_LAYER = re.compile(r"((?:.*?\.)?layers\.)(\d+)(\..*)")

_Cells = dict[tuple[int, int], StoredTensor]
"""One weight by tensor and expert rank."""


def merged(grid: Grid, layout: str) -> NamedTensors:
    """The whole model.

    Raises:
        ReadError: a rank lacks parts of the model that its neighbours have.
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


def _stage(grid: Grid, place: tuple[int, int], keep_encoder: bool) -> dict[str, _Cells]:
    """Weights of one (virtual) pipeline stage by name, experts numbered as in the whole model."""
    chunk, stage = place
    found: dict[str, _Cells] = defaultdict(dict)
    for expert in range(grid.expert):
        for tensor in range(grid.tensor):
            chunks = grid.cells[Place(tensor, stage, expert)]
            if chunk >= len(chunks):
                raise ReadError(f"pipeline rank {stage}, tensor rank {tensor}: virtual stage {chunk} is missing")
            names = _present(chunks[chunk].tensors, keep_encoder)
            first = expert * count_local(names)
            for name, weight in names.items():
                found[global_name(name, first)][tensor, expert] = weight
    return found


def _present(tensors: Mapping[str, StoredTensor], keep_encoder: bool) -> dict[str, StoredTensor]:
    """Tensors by the names of Megatron Core; one whose name is taken keeps its own."""
    found: dict[str, StoredTensor] = {}
    for name, weight in tensors.items():
        present = present_name(name, keep_encoder=keep_encoder)
        found[name if present in found else present] = weight
    return found


def _whole(name: str, cells: _Cells, grid: Grid) -> StoredTensor:
    if is_grouped(name):
        return grouped(name, cells, grid.local_experts(), gated=grid.gated)
    rows: list[StoredTensor] = []
    for expert in sorted({expert for _, expert in cells}):
        shards = [cells[key] for key in sorted(cells) if key[1] == expert]
        if len(shards) < grid.tensor:
            return unreadable(shards[0], "some tensor-parallel ranks lack it")
        rows.append(put_together(name, shards, gated=grid.gated))
    return copies(rows)


def _layers(names: Iterable[str]) -> dict[str, set[int]]:
    """The numbers of the layers below each head, such as ``decoder.layers.``."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        if match := _LAYER.fullmatch(name):
            numbers[match[1]].add(int(match[2]))
    return numbers


def _shifted(name: str, offsets: Mapping[str, int]) -> str:
    match = _LAYER.fullmatch(name)
    return f"{match[1]}{int(match[2]) + offsets[match[1]]}{match[3]}" if match else name
