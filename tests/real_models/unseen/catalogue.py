"""All cases of the unseen set: families, faults and changes written after the rules were made with the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.faults.combined import combined
from tests.real_models.runs import Run
from tests.real_models.unseen.changes import CHANGES, SDPA
from tests.real_models.unseen.faults import SINGLE


def _benign() -> Iterator[Case]:
    for family, changes in CHANGES.items():
        yield from (
            Case(f"benign/{family}/{name}", Run(family).edited(*edits), Run(family)) for name, edits in changes.items()
        )
    for family in SDPA:
        yield Case(f"benign/{family}/sdpa", Run(family).edited(attention="sdpa"), Run(family))


def _both(fault: str, change: str) -> Case:
    return combined(SINGLE[fault], change, *CHANGES[fault.partition("/")[0]][change])


COMBINED = [
    combined(SINGLE["phi/norm-of-keys-for-queries"], "sdpa", attention="sdpa"),
    _both("albert/activation-of-head", "einsum-scores"),
    _both("segformer/running-norm", "projected-by-convolution"),
    _both("seq2seq/softmax-over-batch", "head-once"),
    _both("contrast/temperature", "own-sgd"),
    _both("recurrence/norm-eps", "all-times-at-once"),
]
"""Faults together with a harmless change, which must neither alarm nor hide them."""
FAULTS = [*SINGLE.values(), *COMBINED]
UNSEEN = [
    replace(case, name=f"unseen-{case.name}") for case in (*_benign(), *FAULTS, *(case.reversed() for case in FAULTS))
]
"""Harmless changes, faults, and the faults in the run that is thought to be right."""
