"""Reads files of ``torch.save``: a state_dict, or a checkpoint of a training that contains one.

The state_dict is the value of ``state_dict``, ``model_state_dict``, ``model`` or ``module`` if no tensor stands beside
that key; otherwise the whole file is the state_dict. The elements are read by the adapter of PyTorch, which is found by
its import path: this layer names adapters and never imports them.

Checkpoints of ``torch.distributed.checkpoint`` are not read; ``distributed_refusal`` says how to convert one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.tensor_reader import LazyTensor

_CHECKPOINT_READERS = {"pytorch": "msprobe.adapters.pytorch.tensors.checkpoint_reader"}
_DISTRIBUTED_SUFFIX = ".distcp"
_KEYS = ("state_dict", "model_state_dict", "model", "module")


def read_tree(path: Path) -> dict[str, Any]:
    """Return the content of a file as nested dictionaries.

    Raises:
        ReadError: the file cannot be read or does not hold a dictionary.
        MsprobeException: PyTorch is not installed.
    """
    tree = find_checkpoint_reader("pytorch", path)(path)
    if not isinstance(tree, dict):
        raise ReadError(f"{path}: no state_dict, it holds {_kind_of_value(tree)}")
    return tree


def read_torch_file(path: Path) -> NamedTensors:
    """Return the state_dict in a file.

    Raises:
        ReadError: the file cannot be read or holds no tensors.
        MsprobeException: PyTorch is not installed.
    """
    tree = read_tree(path)
    inner = next((tree[key] for key in _KEYS if isinstance(tree.get(key), dict)), None)
    is_whole = inner is None or any(isinstance(value, LazyTensor) for value in tree.values())
    result = NamedTensors.of("state_dict", tree if is_whole else inner)
    if not result.tensors:
        raise ReadError(f"{path}: no tensors in it (keys: {', '.join(list(tree)[:5]) or 'none'})")
    return result


def _kind_of_value(value: Any) -> str:
    return "one tensor" if isinstance(value, LazyTensor) else f"a {type(value).__name__}"


def find_checkpoint_reader(name: str, path: Path) -> Callable[[Path], Any]:
    """Return the function that reads the checkpoint files of the framework ``name``.

    Raises:
        MsprobeException: the framework is not installed, and ``path`` cannot be read without it.
    """
    try:
        reader: Callable[[Path], Any] = importlib.import_module(_CHECKPOINT_READERS[name]).read_checkpoint
    except ImportError as error:
        raise MsprobeException(
            0,
            f"{path}: cannot be read without {error.name or name}, which is not installed: pip install msprobe[torch]",
        ) from error
    return reader


def distributed_refusal(folder: Path) -> str:
    """Return the message for a folder with such files; an empty text for any other folder."""
    if not any(child.suffix == _DISTRIBUTED_SUFFIX for child in folder.iterdir()):
        return ""
    return (
        f"{folder}: a distributed checkpoint ({_DISTRIBUTED_SUFFIX}), which is not read; make one file of it: "
        f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} FILE.pt"
    )
