"""A file of ``torch.save``: a state_dict, or a training's checkpoint with one in it.

The state_dict is what stands under ``state_dict``, ``model_state_dict``, ``model`` or ``module``, where no tensor
stands beside that key; otherwise the whole file is.
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
    """The whole content of a file as nested dictionaries.

    Raises:
        ReadError: the file cannot be read or holds something else.
        MsprobeException: PyTorch is not installed.
    """
    tree = find_checkpoint_reader("pytorch", path)(path)
    if not isinstance(tree, dict):
        raise ReadError(f"{path}: no state_dict, it holds {_described(tree)}")
    return tree


def read_torch_file(path: Path) -> NamedTensors:
    """The state_dict in a file; see ``read_tree`` for errors. A file without tensors is an error too."""
    tree = read_tree(path)
    inner = next((tree[key] for key in _KEYS if isinstance(tree.get(key), dict)), None)
    is_whole = inner is None or any(isinstance(value, StoredTensor) for value in tree.values())
    found = NamedTensors.of("state_dict", tree if is_whole else inner)
    if not found.tensors:
        raise ReadError(f"{path}: no tensors in it (keys: {', '.join(list(tree)[:5]) or 'none'})")
    return found


def _described(value: Any) -> str:
    return "one tensor" if isinstance(value, StoredTensor) else f"a {type(value).__name__}"
