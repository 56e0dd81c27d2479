"""What is left out of a record on its way to the disk: statistics that a list in ``summary_mode`` does not name.

They are measured all the same, in one pass with the others, and judges of calls need them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def without(node: Any, names: Collection[str]) -> Any:
    """A copy of ``node`` whose tensors lack the fields ``names``; everything else is the very same."""
    if isinstance(node, dict):
        tensor = "shape" in node and "dtype" in node
        return {key: without(part, names) for key, part in node.items() if not (tensor and key in names)}
    return [without(part, names) for part in node] if isinstance(node, list) else node
