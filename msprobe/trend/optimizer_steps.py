"""Which steps of an optimizer the calls of a dump belong to: what a person means by a step of a training.

Most programs make one optimizer step in each step of the dump, and many dumps do not say how many, because recording
stopped before the optimizer. Then a step of the dump counts as one. Where a dump says that it holds several optimizer
steps, its passes through the model are divided among them. Where only some steps of a run hold one (gradients that
accumulate, with ``debugger.step()`` after each pass), the steps up to the next optimizer step are one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msprobe.core.naming.micro_steps import MicroSteps, StepAndCall
from msprobe.core.naming.names import ApiName, ModuleName
from msprobe.core.store.reader import Dump, Place
from msprobe.core.store.safe_files import regular

_HEADER = 1 << 20
"""Characters of a document that are searched for its header."""
_DATA = re.compile(r'^ ?"data":', re.MULTILINE)


class OptimizerSteps:
    """The optimizer steps of one dump.

    Attributes:
        count: how many there are, at least 1.
    """

    unlike_roots = False

    def __init__(self, dump: Dump) -> None:
        self.count = steps_in_header(dump.header)
        self._passes = MicroSteps(dump.construct) if self.count > 1 and dump.construct else None
        if self._passes is None or self._passes.count < self.count:
            self.count, self._passes = 1, None
        self._current = 0
        self._first: dict[tuple[str, int], int] = {}

    def find(self, entry: ApiName | ModuleName) -> StepAndCall | None:
        """Return the optimizer step of a call and its number in that step; ask for the calls in their order.

        A call outside of the model belongs to the step of the call before it.
        """
        if self._passes is not None and (position := self._passes.find(entry)) is not None:
            self._current = position[0] * self.count // self._passes.count
        call = entry.call or 0
        if self._passes is None:
            return 0, call
        return self._current, max(0, call - self._first.setdefault((entry.stem, self._current), call))


def steps_in_header(header: Mapping[str, Any]) -> int:
    """Return how many steps the optimizer with the most of them made in a dump; at least 1."""
    steps = header.get("optimizers")
    if not isinstance(steps, list):
        return 1
    numbers = Counter(str(step.get("optimizer")) for step in steps if isinstance(step, dict))
    return max(numbers.values(), default=1)


def accumulated(places: Iterable[tuple[int, Place]]) -> dict[int, int] | None:
    """Return the optimizer step of each step of a run whose gradients accumulate over steps of the dump.

    ``places`` are steps and dumps in their order. Return None where every step of the dump counts as one.
    """
    has_step: dict[int, bool] = {}
    for step, place in places:
        if step not in has_step:
            has_step[step] = _names_optimizer(place)
    if len(set(has_step.values())) < 2:
        return None
    numbers, current = {}, 0
    for step, ends in has_step.items():
        numbers[step] = current
        current += ends
    return numbers


def _names_optimizer(place: Place) -> bool:
    """Return whether the header of a document says that an optimizer made a step."""
    try:
        with regular(place.document).open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEADER)
    except (OSError, AttributeError):  # a journal alone; loading it says what is wrong
        return False
    return '"optimizers"' in _DATA.split(head, maxsplit=1)[0]
