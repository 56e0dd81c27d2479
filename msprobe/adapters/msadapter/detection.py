"""Find out whether this process runs MSAdapter: a ``torch`` whose tensors are MindSpore's.

The answer is computed again each time, from the modules that the program has imported: nothing is loaded for it.
"""

from __future__ import annotations

import sys
from types import ModuleType


def torch_of_msadapter() -> ModuleType | None:
    """Return the torch-shaped module that the program works with; None for the real one, or for none.

    Where ``torch`` only passes names on to a package, it is that package: mindtorch's own layers look their functions
    up there, and not in ``torch``.
    """
    torch, mindspore = sys.modules.get("torch"), sys.modules.get("mindspore")
    kind = getattr(mindspore, "Tensor", None)
    make = getattr(torch, "tensor", None)
    if torch is None or not isinstance(kind, type) or not callable(make):
        return None
    own = getattr(torch, "Tensor", None)
    if isinstance(own, type) and issubclass(own, kind):
        return _package_behind(torch)
    return _package_behind(torch) if not _is_real(torch) and isinstance(make(0.0), kind) else None


def _package_behind(torch: ModuleType) -> ModuleType:
    """Return the package whose names ``torch`` passes on; ``torch`` itself where the names are its own."""
    layers = getattr(getattr(torch, "nn", None), "Module", None)
    package = sys.modules.get(str(getattr(layers, "__module__", "")).partition(".")[0])
    return package if package is not None and getattr(package, "tensor", None) is torch.tensor else torch


def _is_real(torch: ModuleType) -> bool:
    """Return whether it is PyTorch itself, without calling any of its functions."""
    return hasattr(torch, "_C") and hasattr(torch, "_VF") and hasattr(torch._C, "_autograd")
