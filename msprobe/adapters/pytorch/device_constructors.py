"""torch's list of the functions that follow a device context (``with torch.device(...)``, ``set_default_device``).

torch makes it when it is first needed and knows functions by identity. Made while others stand in their places it would
hold those, and tensors would be made on the CPU from then on, whatever the context says, until the process ends.
"""

from __future__ import annotations

import importlib


def list_device_constructors() -> None:
    """Have the list made now; to be called before functions of torch are replaced. Costs nothing the second time."""
    listed = getattr(importlib.import_module("torch.utils._device"), "_device_constructors", None)
    if listed is not None:
        listed()
