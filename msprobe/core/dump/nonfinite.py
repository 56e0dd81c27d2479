"""Tasks ``overflow_check`` and ``nan_check``: the calls that turn finite inputs into infinities or NaN.

A call is guilty when everything that went into it (arguments, parameters, numbers among them) is finite and something
that came out is not. So a call that only hands a NaN on is not reported, nor one that was given -inf to mask with.
What a backward or a parameter's gradient is made of was saved by forward calls: it is guilty only when these were
given no NaN and gave nothing but finite values, and when the gradients that came in are finite too.
What cannot be measured (no data, no statistics) is neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import Verdict, leaf_nodes, sides
from msprobe.core.dump.lineage import Lineage, split
from msprobe.core.naming.model import Phase

Leaf = tuple[str, dict[str, Any]]


def overflow_judge() -> NonFinite:
    """Return the judge of task ``overflow_check``."""
    return NonFinite(only_guilty=True)


def nan_judge() -> NonFinite:
    """Return the judge of task ``nan_check``."""
    return NonFinite(only_guilty=False)


class NonFinite:
    """Judges by the extremes of each tensor: a NaN or infinity anywhere in it shows in Max or Min.

    Args:
        only_guilty: record nothing but guilty calls (``overflow_check``); else the statistics of all calls up to the
            last guilty one (``nan_check``).
    """

    def __init__(self, only_guilty: bool) -> None:
        self._innocent = Verdict(record=not only_guilty)
        self._found = 0
        self._handed = ""
        self._lineage = Lineage()

    def conclusion(self) -> str:
        handed = f"; {self._handed}, and no recorded call made it" if self._handed and not self._found else ""
        return f"{self._found} calls made infinities or NaN out of finite inputs{handed}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> Verdict:
        given, made = sides(name, body)
        wrong_in, wrong_out = _first_wrong(leaf_nodes(given)), _first_wrong(leaf_nodes(made))
        phase = split(name)[2]
        spoilt = next((leaf for leaf in leaf_nodes(given) if _spoils(leaf[1], phase)), None)
        sound = self._lineage.sound(name)
        if phase != Phase.PARAMETERS_GRAD.value:
            self._lineage.note(name, spoilt is None and wrong_out is None)
        if spoilt is not None and not self._handed:
            self._handed = f"{name} was handed one in {spoilt[0]} ({_shown(spoilt[1])})"
        if wrong_out is None or wrong_in is not None or not sound:
            return self._innocent
        if phase == Phase.PARAMETERS_GRAD.value and not final and not self._lineage.complete(name):
            return Verdict(wait=True)
        self._found += 1
        path, leaf = wrong_out
        return Verdict(finding=f"{path} is not finite ({_shown(leaf)}), every input is")


def finite(leaf: dict[str, Any]) -> bool:
    """Whether a tensor or number holds no infinity and no NaN, as far as is known."""
    return all(not isinstance(value, float) or math.isfinite(value) for value in _extremes(leaf))


def _spoils(leaf: dict[str, Any], phase: str) -> bool:
    """Whether what comes later is no longer to blame: infinities that go into a forward call may be there on purpose,
    to mask with.
    """
    if phase == Phase.BACKWARD.value:
        return not finite(leaf)
    return any(isinstance(value, float) and math.isnan(value) for value in _extremes(leaf))


def _extremes(leaf: dict[str, Any]) -> tuple[Any, Any, Any]:
    return leaf.get("Max"), leaf.get("Min"), leaf.get("value")


def _first_wrong(leaves: Iterable[Leaf]) -> Leaf | None:
    return next(((path, leaf) for path, leaf in leaves if not finite(leaf)), None)


def _shown(leaf: dict[str, Any]) -> str:
    if "value" in leaf:
        return str(leaf["value"])
    return f"Max {leaf.get('Max')}, Min {leaf.get('Min')}"
