"""Tasks ``overflow_check`` and ``nan_check``: the calls that turn finite inputs into infinities or NaN.

A call is guilty when everything that went into it (arguments, parameters, numbers among them) is finite and something
that came out is not. So a call that only hands a NaN on is not reported, nor one that was given -inf to mask with.
What cannot be measured (no data, no statistics) is neither.
"""

from __future__ import annotations

import math
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import Verdict, leaf_nodes, sides


class NonFinite:
    """Judges by the extremes of each tensor: a NaN or infinity anywhere in it shows in Max or Min.

    Args:
        only_guilty: record nothing but guilty calls (``overflow_check``); else the statistics of all calls up to the
            last guilty one (``nan_check``).
    """

    def __init__(self, only_guilty: bool) -> None:
        self._only_guilty = only_guilty
        self._found = 0

    def conclusion(self) -> str:
        return f"{self._found} calls made infinities or NaN out of finite inputs"

    def judge(self, name: str, body: dict[str, Node]) -> Verdict:
        given, made = sides(name, body)
        bad = next(((path, leaf) for path, leaf in leaf_nodes(made) if not finite(leaf)), None)
        if bad is None or not all(finite(leaf) for _, leaf in leaf_nodes(given)):
            return Verdict(record=not self._only_guilty)
        path, leaf = bad
        self._found += 1
        return Verdict(finding=f"{path} is not finite ({_shown(leaf)}), every input is")


def finite(leaf: dict[str, Any]) -> bool:
    """Whether a tensor or number holds no infinity and no NaN, as far as is known."""
    return all(
        not isinstance(value, float) or math.isfinite(value)
        for value in (leaf.get("Max"), leaf.get("Min"), leaf.get("value"))
    )


def _shown(leaf: dict[str, Any]) -> str:
    if "value" in leaf:
        return str(leaf["value"])
    return f"Max {leaf.get('Max')}, Min {leaf.get('Min')}"
