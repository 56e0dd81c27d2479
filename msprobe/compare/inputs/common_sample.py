"""Dumps of different samples of the calls of one program: what the smaller sample left out is left out of both.

``sample`` chooses calls by a hash of their names, so the calls of a smaller share are among those of a larger one.
Without this a call that one side was not asked to record would look like a call that only the other side makes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msprobe.core.selection import sample_test
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import SAMPLED


def with_common_sample(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps with the calls that both were asked to record, and a note where that leaves some out."""
    shares = _share(target), _share(golden)
    test = sample_test(min(shares))
    if shares[0] == shares[1] or test is None:
        return target, golden, []
    cut = [
        replace(dump, data={name: body for name, body in dump.data.items() if test(_forward(name))})
        for dump in (target, golden)
    ]
    note = (
        f"the share of calls that were recorded is {shares[0]:g} in the target and {shares[1]:g} in the golden run "
        f"(sample): the calls of the smaller share are compared"
    )
    return cut[0], cut[1], [note]


def _share(dump: Dump) -> float:
    sampled: Any = dump.header.get(SAMPLED)
    share = sampled.get("share") if isinstance(sampled, dict) else None
    return float(share) if isinstance(share, (int, float)) and 0.0 < share < 1.0 else 1.0


def _forward(name: str) -> str:
    """Return the forward entry of a call, by which it was chosen; gradients of parameters are chosen by themselves."""
    head, _, last = name.rpartition(".")
    if last == "backward":
        return f"{head}.forward"
    return f"{head.removesuffix('.backward')}.forward.{last}" if head.endswith(".backward") else name
