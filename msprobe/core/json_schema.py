"""JSON Schema text of our documents, so that editors and other tools can check files without msprobe.

The schemas are generated from the pydantic models and committed; ``scripts/schema --check`` fails when they are stale.
"""

import json
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text(schema: dict[str, Any]) -> str:
    """Return the schema as committed: dialect first, two spaces, UTF-8, newline at the end."""
    return json.dumps({"$schema": DIALECT, **_untitled(schema)}, indent=2, ensure_ascii=False) + "\n"


def _untitled(node: Any, *, names: bool = False) -> Any:
    """Return the schema without the titles that pydantic derives from field names; they only repeat the name.

    ``names`` is True for an object whose keys are names chosen by us (``properties``, ``$defs``), not keywords.
    """
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _untitled(value, names=not names and key in {"properties", "$defs"})
        for key, value in node.items()
        if names or key != "title"
    }
