"""Sharded checkpoints of Hugging Face libraries: ``*.index.json`` says in which file each tensor lies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.configcheck.named_tensors import NamedTensors
from msprobe.core.errors import ReadError


def read_indexed(index: Path, read: Callable[[Path], NamedTensors]) -> NamedTensors:
    """The tensors that ``index`` names; ``read`` reads one shard.

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
    try:
        content = json.loads(index.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{index}: not valid JSON ({error})") from error
    except OSError as error:
        raise ReadError(f"{index}: cannot be read ({error.strerror})") from error
    found = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not found:
        raise ReadError(f"{index}: no index of shards, `weight_map` is missing")
    return found
