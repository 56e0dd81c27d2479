"""torch's list of the functions that follow a device context (``with torch.device(...)``, ``set_default_device``).

torch makes the list when it is first needed, and it holds functions by identity. If it were made while functions are
replaced, it would hold the replacements, and until the process ends tensors would be made on the CPU, whatever the
context says.
"""

from __future__ import annotations

import importlib


def list_device_constructors() -> None:
    """Make torch build the list now. Call this before functions of torch are replaced; a second call costs nothing."""
    build_list = getattr(importlib.import_module("torch.utils._device"), "_device_constructors", None)
    if build_list is not None:
        build_list()
