"""One wrapped function: how its calls are named, and whether they are recorded at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator


class CallSite:
    """The names of the calls of one API, made from a prefix built once and a counter.

    Attributes:
        recorded: the verdict of the risk table. A site that is not recorded still counts its calls, because the call
            numbers of a dump do not depend on what was filtered.
        differentiable: False for calls through which no gradient flows, so that their backward is not looked for.
        creates: whether the memory of a result is new or that of an argument, and has no other owner. That holds for
            functions of the framework; it is not known of others.
    """

    __slots__ = ("api", "calls", "creates", "differentiable", "prefix", "recorded", "stem")

    def __init__(self, prefix: str, api: str) -> None:
        self.prefix = prefix
        self.api = api
        self.stem = f"{prefix}.{api}."
        self.recorded = True
        self.differentiable = True
        self.creates = False
        self.calls: Iterator[int] = itertools.count()

    def reset(self) -> None:
        """Number the calls from 0 again: a new step begins. ``next`` on the counter is atomic, so no lock is needed."""
        self.calls = itertools.count()
