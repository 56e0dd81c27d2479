"""Reads files of ``torch.save``: a state_dict, or a checkpoint of a training that contains one.

The state_dict is the value of ``state_dict``, ``model_state_dict``, ``model`` or ``module`` if no tensor stands beside
that key but states of random generators; otherwise the whole file is the state_dict. The elements are read by the
adapter of PyTorch, which is found by its import path: this layer names adapters and never imports them.

Folders of ``torch.distributed.checkpoint`` are read by the adapter too, and hold a state_dict in the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.core.distribution import install_command
from msprobe.core.errors import MsprobeException, ReadError, error_text
from msprobe.core.store.tensor_reader import LazyTensor

_CHECKPOINT_READERS = {
    "pytorch": "msprobe.adapters.pytorch.checkpoints.checkpoint_reader",
    "distributed": "msprobe.adapters.pytorch.checkpoints.distributed_checkpoint",
}
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
    return _state_dict("state_dict", read_tree(path), path)


def _state_dict(layout: str, tree: dict[str, Any], path: Path) -> NamedTensors:
    inner = next((tree[key] for key in _KEYS if isinstance(tree.get(key), dict)), None)
    beside = {key: value for key, value in tree.items() if isinstance(value, LazyTensor)}
    is_whole = inner is None or not all(map(_is_random_state, beside.values()))
    result = NamedTensors.of(layout, tree if is_whole else inner)
    result.skipped.extend([] if is_whole else beside)
    if not result.tensors:
        raise ReadError(f"{path}: no tensors in it (keys: {', '.join(list(tree)[:5]) or 'none'})")
    return result


def _is_random_state(value: LazyTensor) -> bool:
    """Return whether a tensor may be the state of a random generator: a list of bytes."""
    return value.dtype == "uint8" and len(value.shape) == 1


def _kind_of_value(value: Any) -> str:
    return "one tensor" if isinstance(value, LazyTensor) else f"a {type(value).__name__}"


def find_checkpoint_reader(name: str, path: Path) -> Callable[[Path], Any]:
    """Return the function that reads the checkpoint files of the framework ``name``.

    Raises:
        MsprobeException: the framework is not installed, and ``path`` cannot be read without it.
    """
    try:
        reader: Callable[[Path], Any] = importlib.import_module(_CHECKPOINT_READERS[name]).read_checkpoint
    except ModuleNotFoundError as error:
        missing = f"{error.name or name}, which is not installed: {install_command('torch')}"
        raise MsprobeException(0, f"{path}: cannot be read without {missing}") from error
    except ImportError as error:
        raise MsprobeException(0, f"{path}: cannot be read: {error_text(error)}") from error
    return reader


def read_distributed(folder: Path) -> NamedTensors | None:
    """Return the tensors of a folder of ``torch.distributed.checkpoint``; None for any other folder.

    Raises:
        ReadError: the checkpoint is damaged or incomplete.
        MsprobeException: PyTorch is not installed.
    """
    if not any(child.suffix == _DISTRIBUTED_SUFFIX for child in folder.iterdir()):
        return None
    tree = find_checkpoint_reader("distributed", folder)(folder)
    return _state_dict("distributed checkpoint", tree, folder)
