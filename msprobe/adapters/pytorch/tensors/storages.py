"""Which memory a tensor lies in: a number for each storage, the version of its content, and the part that it shows.

Two tensors with one number and one version are views of the same content. The number is an attribute of torch's Python
object of the storage, which torch keeps for as long as the storage lives: a later storage at the same address is
another object, without the number. Nothing is held, and no table is searched or cleared.

The version counts the writes by operations of torch. It does not see writes through ``.data``, which has a counter of
its own, by fused optimizers and by kernels of the program; tensors made in inference mode have no counter.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutSubclass, storage
from msprobe.adapters.pytorch.tensors.transforms import below_transforms
from msprobe.core.interruption import let_through
from msprobe.core.store.record_walk import MEMORY, NO_DATA, NOT_READ, PART

_NUMBER = "_msprobe_number"
_NUMBERS = count(1)
_INNER = ("_local_tensor", "elem", "_values")
"""Where a subclass that has no memory of its own keeps the tensor that has it: DTensor, results of collectives that
are under way, nested tensors."""


def note_memory(tensor: torch.Tensor, node: dict[str, Any]) -> None:
    """Add to the record of a tensor with values which memory they lie in; nothing for one without a storage."""
    if NO_DATA in node or NOT_READ in node:
        return
    tensor = below_transforms(tensor)
    if type(tensor) not in PLAIN:
        with WithoutSubclass():
            inner = _with_storage(tensor)
            if inner is not None:
                _note(inner, node)
        return
    _note(tensor, node)


def _note(tensor: torch.Tensor, node: dict[str, Any]) -> None:
    try:
        whole = storage(tensor)
        number = getattr(whole, _NUMBER, None) or _numbered(whole, tensor)
        node[MEMORY] = f"{number}.{tensor._version}" if number > 0 else str(-number)
        offset = tensor.storage_offset()
        if offset or not tensor.is_contiguous():
            node[PART] = f"{offset}:{','.join(map(str, tensor.stride()))}"
    except RuntimeError as error:  # no storage: sparse
        let_through(error)
        return


def _numbered(whole: Any, tensor: torch.Tensor) -> int:
    """Give a storage its number and return it: a negative one where nothing counts the writes.

    Two threads that see one storage for the first time at the same moment may each give one; the later one stays.
    """
    number = -next(_NUMBERS) if tensor.is_inference() else next(_NUMBERS)
    whole._msprobe_number = number
    return number


def _with_storage(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that holds the memory of an instance of a subclass; None where there is none."""
    inner: torch.Tensor | None = tensor
    while inner is not None:
        tensor, inner = inner, _inside(inner)
    try:
        return tensor if storage(tensor).data_ptr() else None
    except RuntimeError as error:
        let_through(error)
        return None


def _inside(tensor: torch.Tensor) -> torch.Tensor | None:
    found = (getattr(tensor, name, None) for name in _INNER)
    return next((inner for inner in found if isinstance(inner, torch.Tensor)), None)
