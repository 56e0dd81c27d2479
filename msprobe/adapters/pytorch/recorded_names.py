"""The functions that are recorded: their names (the table ``adapters/tables/pytorch.yaml``), and whose they are."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from msprobe.core.yaml_file import load_table

OWNERS: Mapping[str, Any] = {
    "Functional": torch.nn.functional,
    "Tensor": torch.Tensor,
    "Torch": torch,
    "VF": torch._VF,
}
"""Prefix of records -> the module or class whose functions they are of."""


@functools.cache
def read_names() -> Any:
    """Return the table: names of functions by the prefix of their records, and what else the taps need to know."""
    return load_table("msprobe.adapters", "tables/pytorch.yaml")
