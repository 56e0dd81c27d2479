"""Reads a checkpoint of any known layout as one dictionary of named tensors.

=====================  ======================================================================
one file               ``.safetensors``; ``.pt``, ``.pth``, ``.bin``, ``.ckpt`` of ``torch.save``; MindSpore's ``.ckpt``
a folder of one file   ``model.safetensors``, ``pytorch_model.bin``, or the only file of such a kind
Hugging Face           ``*.index.json`` with a ``weight_map``, and the shards it names
distributed torch      ``.metadata`` and ``*.distcp`` of ``torch.distributed.checkpoint``
Megatron               ``latest_checkpointed_iteration.txt``, ``iter_*/mp_rank_*``: merged
=====================  ======================================================================

Elements stay in their files until they are read.
"""

from __future__ import annotations

import re
from pathlib import Path

from msprobe.checkpoints.formats.megatron_folder import is_megatron, read_megatron
from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.checkpoints.formats.safetensors import read_safetensors, read_sharded
from msprobe.checkpoints.formats.torch_files import read_distributed, read_torch_file
from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.mindspore_checkpoint import is_mindspore, read_mindspore_checkpoint

_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
_SUFFIXES = (".safetensors", *_TORCH_SUFFIXES)
_USUAL_NAMES = ("model.safetensors", "pytorch_model.bin", "model.pt")
_NUMBERED = re.compile(r"(.+)-(\d+)-of-(\d+)(\.\w+)")
_MAX_LISTED = 5
_TEXTS = {"str", "string"}  # types of values that ``append_dict`` of MindSpore adds
MINDSPORE = "MindSpore checkpoint"
_GIVE = (
    "give a checkpoint: a .safetensors or .pt file, or the folder of a Hugging Face, distributed or Megatron checkpoint"
)


def read_checkpoint(path: Path) -> NamedTensors:
    """Return the tensors of the checkpoint at ``path``.

    Raises:
        ReadError: there is no checkpoint, it is damaged or incomplete, or its layout is not known.
        MsprobeException: its files need PyTorch, which is not installed.
    """
    if path.is_file():
        return _read_file(path)
    if not path.is_dir():
        raise ReadError(f"{path}: no such file or folder; {_GIVE}")
    if is_megatron(path):
        return read_megatron(path)
    if (distributed := read_distributed(path)) is not None:
        return distributed
    names = sorted(child.name for child in path.iterdir() if child.is_file())
    indexes = [name for name in names if name.endswith(".index.json")]
    if indexes:
        preferred = next((name for name in indexes if ".safetensors." in name), indexes[0])
        return read_sharded(path / preferred, _read_file)
    return _read_folder(path, names)


def _read_file(path: Path) -> NamedTensors:
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    if path.suffix == ".ckpt" and is_mindspore(path):
        values = read_mindspore_checkpoint(path)
        texts = [name for name, value in values.items() if value.dtype.lower() in _TEXTS]
        return NamedTensors(MINDSPORE, {name: values[name] for name in values if name not in texts}, texts)
    if path.suffix in _TORCH_SUFFIXES:
        return read_torch_file(path)
    raise ReadError(f"{path}: no checkpoint; files that can be read end in {', '.join(_SUFFIXES)}")


def _read_folder(folder: Path, names: list[str]) -> NamedTensors:
    """Read a folder with one checkpoint file, or with the numbered parts of one."""
    files = [name for name in names if name.endswith(_SUFFIXES)]
    usual = [name for name in _USUAL_NAMES if name in files]
    if usual or len(files) == 1:
        return _read_file(folder / (usual or files)[0])
    if not files:
        raise ReadError(_no_checkpoint(folder))
    parts = [match for name in files if (match := _NUMBERED.fullmatch(name))]
    if len(parts) != len(files) or len({(part[1], part[3], part[4]) for part in parts}) > 1:
        raise ReadError(f"{folder}: several checkpoints ({_list(files)}); give one of the files")
    missing = sorted(set(range(1, int(parts[0][3]) + 1)) - {int(part[2]) for part in parts})
    if missing:
        raise ReadError(f"{folder}: {parts[0][3]} parts are needed, part {missing[0]} is missing")
    return NamedTensors.joined(f"{len(files)} files", [_read_file(folder / name) for name in files])


def _no_checkpoint(folder: Path) -> str:
    """Return the message for a folder without a checkpoint."""
    children = sorted(child.name for child in folder.iterdir())
    return f"{folder}: no checkpoint in it (found: {_list(children) or 'nothing'}); {_GIVE}"


def _list(names: list[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (", ..." if len(names) > _MAX_LISTED else "")
