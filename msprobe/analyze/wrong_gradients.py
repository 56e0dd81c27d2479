"""Which parameter's gradient is wrong when a call after the backward passes gets something wrong.

Calls after the backward passes work on rows of many gradients, or on what no record leads to. But what the optimizer
gets belongs to parameters (``gradient_trails``). Where the gradients of some of them are wrong before the last call on
the way, as clipping, and those of others are right, it is these that the difference comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

from msprobe.compare.records.gradient_trails import Stage, gradient_trails
from msprobe.compare.records.likeness import distance
from msprobe.core.store.reader import Dump

_SAME = 1e-3


def module_with_wrong_gradient(target: Dump, golden: Dump) -> tuple[str, str] | None:
    """Return the forward call of the first module with a wrong gradient, and the name of the parameter; None where no
    gradient is known to be wrong, or all are."""
    ours, theirs = gradient_trails(target), gradient_trails(golden)
    both = [parameter for parameter in ours if parameter in theirs]
    wrong = [parameter for parameter in both if _is_wrong(ours[parameter], theirs[parameter])]
    return wrong[0] if wrong and len(wrong) < len(both) else None


def _is_wrong(target: Sequence[Stage], golden: Sequence[Stage]) -> bool:
    last = golden[-2:][0].raw
    return not any(
        stage.raw["shape"] == last["shape"] and distance(stage.raw, last) <= _SAME for stage in target[:-1] or target
    )
