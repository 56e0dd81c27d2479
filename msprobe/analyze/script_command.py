"""From the first divergence to the command that runs that call alone (``msprobe op_generate``)."""

from __future__ import annotations

import shlex

from msprobe.compare.rows.summary import FirstDivergence

_OF_VALUES = ("value", "non_finite")
_FUNCTIONS = ("Functional", "Tensor", "Torch", "VF", "Aten", "Mint", "MintFunctional")
"""Prefixes of functions that ``op_generate`` writes scripts for."""


def script_command(first: FirstDivergence | None, dump: str) -> str:
    """Return the command that writes a script for the first divergence; "" where that is no function's own value,
    or that of merged ranks.

    Args:
        first: the first divergence.
        dump: the dump of the target.
    """
    if first is None or first.target is None or first.kind not in _OF_VALUES or first.ranks:
        return ""
    name, _, phase = first.target.rpartition(".")
    if not dump or name.partition(".")[0] not in _FUNCTIONS or phase not in ("forward", "backward"):
        return ""
    backward = ["--backward"] if phase == "backward" else []
    return shlex.join(["msprobe", "op_generate", dump, "--api", name, *backward])
