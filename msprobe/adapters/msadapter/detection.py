"""Find out whether this process runs MSAdapter: a ``torch`` whose tensors are MindSpore's.

The answer is computed again each time, from the modules that the program has imported: nothing is loaded for it.
"""

from __future__ import annotations

import sys
from types import ModuleType


def torch_of_msadapter() -> ModuleType | None:
    """Return the torch-shaped module that the program works with; None for the real one, or for none."""
    torch, mindspore = sys.modules.get("torch"), sys.modules.get("mindspore")
    kind = getattr(mindspore, "Tensor", None)
    make = getattr(torch, "tensor", None)
    if torch is None or not isinstance(kind, type) or not callable(make):
        return None
    own = getattr(torch, "Tensor", None)
    if isinstance(own, type) and issubclass(own, kind):
        return torch
    return torch if not _is_real(torch) and isinstance(make(0.0), kind) else None


def _is_real(torch: ModuleType) -> bool:
    """Return whether it is PyTorch itself, without calling any of its functions."""
    return hasattr(torch, "_C") and hasattr(torch, "_VF") and hasattr(torch._C, "_autograd")
