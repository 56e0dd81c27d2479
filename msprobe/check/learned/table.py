"""Examples of relations, counted: what was seen how often, and where first."""

from __future__ import annotations

import math
from typing import NamedTuple

from msprobe.check.facts.patterns import pattern_of, plain_path
from msprobe.check.facts.step_facts import Seen, SeenValue

Value = str | bool | float | tuple[str, ...]
"""What a relation is about: a setting, a truth, a size as a logarithm to the base 2, or names."""

EQUALS, HOLDS, INCLUDES, ORDERED, WITHIN, BELOW = "equals", "holds", "includes", "ordered", "within", "below"
"""How the values of a relation are held against each other: all are one value; all are true; each has certain names;
names come in one order; sizes lie in a band, or not above one."""


class Subject(NamedTuple):
    """What an example is about.

    Args:
        kind: consistent, contained, order, argument or output.
        owner: the class of the module; ``parameter``, ``optimizer`` or ``training step``.
        path: the pattern of its path.
        what: the statement's noun: "eps of layer_norm".
        when: the precondition in words, "" for none.
        rule: how values are held against each other.
    """

    kind: str
    owner: str
    path: str
    what: str
    when: str
    rule: str


class SeenTable:
    """The examples of one step of one rank.

    Attributes:
        with_sizes: whether examples of sizes (``WITHIN``, ``BELOW``) are wanted, which cost the most to compute.
    """

    def __init__(self, with_sizes: bool = True) -> None:
        self.with_sizes = with_sizes
        self._of: dict[Subject | tuple[str, ...], dict[Value, list[object]]] = {}

    def add(self, subject: tuple[str, ...], value: Value, call: str = "", place: int = 0, name: str = "") -> None:
        """Count one example; ``call`` and ``place`` say where, ``name`` is the path of the module or parameter."""
        values = self._of.get(subject)
        if values is None:
            values = self._of[subject] = {}
        known = values.get(value)
        if known is None:
            values[value] = [1, call, place, name]
        else:
            known[0] += 1  # type: ignore[operator]

    def add_with_place(self, subject: tuple[str, ...], value: Value, call: str = "", place: int = 0) -> None:
        """Count one example for the pattern of a path, and one for the path itself, as layers of one pattern may be
        set up differently: the first ones may be frozen. The third part of the subject is the path."""
        kind, owner, path, *rest = subject
        pattern = pattern_of(path)
        self.add((kind, owner, pattern, *rest), value, call, place, path)
        plain = plain_path(path)
        if plain != pattern:
            self.add((kind, owner, plain, *rest), value, call, place, path)

    def seen(self) -> list[Seen]:
        """Return what was counted."""
        return [
            Seen(*subject, values=[SeenValue(value, *found) for value, found in values.items()])  # type: ignore[arg-type,misc]
            for subject, values in self._of.items()
        ]


def size_step(value: float) -> float | None:
    """Return a size as a logarithm to the base 2 in steps of a quarter; None for zero and what is no number."""
    if not value > 1e-30 or math.isinf(value):
        return None
    return round(4.0 * math.log2(value)) / 4.0
