"""The names of the functions that are recorded: the table ``adapters/tables/mindspore.yaml``."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def read_names() -> Any:
    """Return the table: names of functions by the prefix of their records."""
    text = files("msprobe.adapters").joinpath("tables/mindspore.yaml").read_text("utf-8")
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_single_data()  # safe_load, with the fast parser
