"""The names of the functions that are recorded: the table ``adapters/tables/mindspore.yaml``."""

from __future__ import annotations

import functools
from typing import Any

from msprobe.core.yaml_file import load_table


@functools.cache
def read_names() -> Any:
    """Return the table: names of functions by the prefix of their records."""
    return load_table("msprobe.adapters", "tables/mindspore.yaml")
