"""The folders of a Megatron checkpoint.

    latest_checkpointed_iteration.txt                        a number, or `release`
    iter_0000010/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt   tensor, pipeline and expert rank

A single number after the tensor rank is the pipeline rank of a job without expert parallelism, or the expert rank of a
job without pipeline parallelism. The arguments stored in the file decide which; without them the names of the weights
do: only pipeline ranks differ in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from msprobe.checkpoints.formats.megatron_merge import RankGrid, RankPosition, merge_parts
from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.checkpoints.formats.torch_files import read_distributed, read_tree
from msprobe.core.errors import ReadError

LATEST = "latest_checkpointed_iteration.txt"
_RELEASE = "release"
_ITERATION = re.compile(r"iter_(\d+)")
_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?")
_FILES = ("model_optim_rng.pt", "model_rng.pt")
_CHUNK = re.compile(r"model(\d+)")
_SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size")


@dataclass(frozen=True, slots=True)
class _Part:
    """The files of one rank.

    Attributes:
        path: its file.
        numbers: the numbers in the name of its folder.
        arguments: the arguments of the program.
        chunks: its parts of the model, several with virtual pipeline stages.
    """

    path: Path
    numbers: tuple[int, ...]
    arguments: Mapping[str, Any]
    chunks: list[NamedTensors]


def is_megatron(path: Path) -> bool:
    """Return whether a folder has the layout of a Megatron checkpoint."""
    return (path / LATEST).is_file() or any(
        _ITERATION.fullmatch(child.name) or _RANK.fullmatch(child.name) for child in path.iterdir() if child.is_dir()
    )


def read_megatron(path: Path) -> NamedTensors:
    """Return the whole model of the latest iteration, or of the iteration folder ``path``.

    Raises:
        ReadError: a rank is missing or cannot be read, or the parts do not fit together.
        MsprobeException: PyTorch is not installed.
    """
    folder = _iteration_folder(path)
    parts = [_read_part(child) for child in sorted(folder.iterdir()) if child.is_dir() and _RANK.fullmatch(child.name)]
    if not parts:
        if (distributed := read_distributed(folder)) is not None:
            return distributed
        raise ReadError(f"{folder}: no folder mp_rank_TT[_PPP][_EEE] in it")
    if len({len(part.numbers) for part in parts}) > 1:
        raise ReadError(f"{folder}: folders of different layouts ({parts[0].path.name}, {parts[-1].path.name})")
    cells = {_position(part, parts): part.chunks for part in parts}
    _check_complete(folder, cells, parts[0].arguments)
    grid = RankGrid(cells, parts[0].arguments)
    sizes = f"tensor {grid.tensor}, pipeline {grid.pipeline}, virtual {grid.chunks}, expert {grid.expert}"
    return merge_parts(grid, f"Megatron {folder.name}, parallel: {sizes}")


def _iteration_folder(path: Path) -> Path:
    """Return the folder of the latest iteration below ``path``, or ``path`` where it is such a folder."""
    children = [child for child in path.iterdir() if child.is_dir()]
    if any(_RANK.fullmatch(child.name) for child in children):
        return path
    if (path / LATEST).is_file():
        text = (path / LATEST).read_text(encoding="utf-8", errors="replace").strip()
        if text != _RELEASE and not (text.isascii() and text.isdigit()):
            raise ReadError(f"{path / LATEST}: neither the number of an iteration nor `release`: {text[:40]!r}")
        folder = path / (_RELEASE if text == _RELEASE else f"iter_{int(text):07d}")
        if not folder.is_dir():
            raise ReadError(f"{folder}: no such folder, which {LATEST} names")
        return folder
    numbers = {int(match[1]): child for child in children if (match := _ITERATION.fullmatch(child.name))}
    return numbers[max(numbers)]


def _read_part(folder: Path) -> _Part:
    match = _RANK.fullmatch(folder.name)
    assert match is not None
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        raise ReadError(f"{folder}: no {' or '.join(_FILES)} in it")
    tree = read_tree(file)
    keys = sorted((int(chunk[1]), key) for key in tree if (chunk := _CHUNK.fullmatch(key)))
    chunks = [NamedTensors.of(key, tree[key]) for key in [key for _, key in keys] or ["model"] if key in tree]
    if not any(chunk.tensors for chunk in chunks):
        raise ReadError(f"{file}: no tensors under `model` (keys: {', '.join(list(tree)[:5]) or 'none'})")
    arguments = tree.get("args")
    numbers = tuple(int(number) for number in match.groups() if number is not None)
    return _Part(file, numbers, arguments if isinstance(arguments, dict) else {}, chunks)


def _position(part: _Part, parts: list[_Part]) -> RankPosition:
    """Return tensor, pipeline and expert rank of a part."""
    tensor, *others = part.numbers
    if len(others) == 2:
        return RankPosition(tensor, others[0], others[1])
    if not others:
        return RankPosition(tensor, 0, 0)
    return RankPosition(tensor, 0, others[0]) if _is_expert(parts) else RankPosition(tensor, others[0], 0)


def _is_expert(parts: list[_Part]) -> bool:
    """Return whether the single number after the tensor rank is the expert rank."""
    _, pipeline, expert = (parts[0].arguments.get(name) for name in _SIZES)
    if isinstance(pipeline, int) and isinstance(expert, int) and (pipeline > 1) != (expert > 1):
        return expert > 1
    names = {frozenset(name for chunk in part.chunks for name in chunk.tensors) for part in parts}
    return len(parts) > 1 and len(names) == 1


def _check_complete(folder: Path, cells: Mapping[RankPosition, Any], arguments: Mapping[str, Any]) -> None:
    sizes = [max(numbers) + 1 for numbers in zip(*cells, strict=True)]
    for axis, name in enumerate(_SIZES):
        size = arguments.get(name)
        if isinstance(size, int) and 0 < size < 1 << 16:
            sizes[axis] = max(sizes[axis], size)
    for position in product(*map(range, sizes)):
        if position not in cells:
            tensor, pipeline, expert = position
            raise ReadError(
                f"{folder}: incomplete, the folder of tensor rank {tensor}, pipeline rank {pipeline}, expert rank "
                f"{expert} is missing"
            )
