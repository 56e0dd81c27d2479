"""Reads files of ``torch.save``: a state_dict, or a checkpoint of a training that contains one.

The state_dict is the value of ``state_dict``, ``model_state_dict``, ``model`` or ``module`` if no tensor stands beside
that key; otherwise the whole file is the state_dict.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.configcheck.named_tensors import NamedTensors
from msprobe.core.backend.registry import find_checkpoint_reader
from msprobe.core.errors import ReadError
from msprobe.core.tensors.stored import StoredTensor

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
    is_whole = inner is None or any(isinstance(value, StoredTensor) for value in tree.values())
    result = NamedTensors.of("state_dict", tree if is_whole else inner)
    if not result.tensors:
        raise ReadError(f"{path}: no tensors in it (keys: {', '.join(list(tree)[:5]) or 'none'})")
    return result


def _kind_of_value(value: Any) -> str:
    return "one tensor" if isinstance(value, StoredTensor) else f"a {type(value).__name__}"
