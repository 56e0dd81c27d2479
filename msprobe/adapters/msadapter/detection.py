"""Whether this process runs MSAdapter: a ``torch`` whose tensors are MindSpore's.

Asked anew each time and answered from what the program has imported, so nothing is loaded and no early answer sticks.
"""

from __future__ import annotations

import sys
from types import ModuleType


def torch_of_msadapter() -> ModuleType | None:
    """The torch-shaped module the program works with; None for the real one, or none at all."""
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
    """Whether it is PyTorch itself, which must not be called just to find out."""
    return hasattr(torch, "_C") and hasattr(torch, "_VF") and hasattr(torch._C, "_autograd")
