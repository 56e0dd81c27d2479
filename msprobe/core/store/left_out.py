"""Statistics that a list in ``summary_mode`` does not name are dropped from records on their way to the disk.

They are measured all the same, in one pass with the others, and the judges of calls use them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def drop_statistics(node: Any, names: Collection[str]) -> Any:
    """Return a copy of ``node`` in which tensors lack the fields ``names``; other values are the same objects."""
    if isinstance(node, dict):
        tensor = "shape" in node and "dtype" in node
        return {key: drop_statistics(part, names) for key, part in node.items() if not (tensor and key in names)}
    return [drop_statistics(part, names) for part in node] if isinstance(node, list) else node
