"""The functions that are recorded: their names (the table ``adapters/tables/pytorch.yaml``), and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import torch
import yaml

OWNERS: Mapping[str, Any] = {
    "Functional": torch.nn.functional,
    "Tensor": torch.Tensor,
    "Torch": torch,
    "VF": torch._VF,
}
"""Prefix of records -> the module or class whose functions they are of."""


def read_names() -> Any:
    """Return the table: names of functions by the prefix of their records, and what else the taps need to know."""
    text = files("msprobe.adapters").joinpath("tables/pytorch.yaml").read_text("utf-8")
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_single_data()  # safe_load, with the fast parser
