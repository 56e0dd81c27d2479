"""Reads sharded checkpoints of Hugging Face libraries: ``*.index.json`` names the file of each tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.configcheck.named_tensors import NamedTensors
from msprobe.core.errors import ReadError
from msprobe.core.store.json_object import read_json_object


def read_sharded(index: Path, read: Callable[[Path], NamedTensors]) -> NamedTensors:
    """Return the tensors that ``index`` names; ``read`` reads one shard.

    Raises:
        ReadError: the index or a shard cannot be read, or a shard lacks a tensor.
    """
    names_of: dict[str, list[str]] = defaultdict(list)
    for name, shard in _weight_map(index).items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ReadError(f"{index}: weight_map[{name!r}] does not name a file in its folder: {shard!r}")
        names_of[shard].append(name)
    parts = []
    for shard, names in sorted(names_of.items()):
        part = read(index.parent / shard)
        missing = [name for name in names if name not in part.tensors]
        if missing:
            raise ReadError(f"{index.parent / shard}: {missing[0]} is missing, which {index.name} says is in it")
        parts.append(NamedTensors(part.layout, {name: part.tensors[name] for name in names}, part.skipped))
    return NamedTensors.joined(f"{len(parts)} shards of {index.name}", parts)


def _weight_map(index: Path) -> dict[str, Any]:
    weight_map = read_json_object(index, '{"weight_map": {"layer.weight": "file"}}').get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ReadError(f"{index}: no index of shards, `weight_map` is missing")
    return weight_map
