"""Learn from runs what always held in them: relations with at least three examples and no counterexample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import NamedTuple

from msprobe.check.facts.patterns import NUMBER, pattern_of
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Seen, StepFacts
from msprobe.check.learned.of_training import observe_training
from msprobe.check.learned.relations import LearnedRelations, Relation, Support
from msprobe.check.learned.table import BELOW, EQUALS, HOLDS, INCLUDES, ORDERED, WITHIN, Subject, Value
from msprobe.check.learned.wording import statement

FEWEST = 3
"""Examples below which nothing is learned."""
_DEVIATIONS = 6.0


@dataclass
class _Examples:
    """The examples of one subject: value to count, and how many steps have any."""

    counts: dict[Value, int] = field(default_factory=dict)
    steps: int = 0

    def add(self, seen: Seen) -> None:
        self.steps += 1
        for one in seen.values:
            self.counts[one.value] = self.counts.get(one.value, 0) + one.number

    @property
    def number(self) -> int:
        return sum(self.counts.values())


class _Learned(NamedTuple):
    value: Value | None = None
    low: float | None = None
    high: float | None = None


def learn(runs: Sequence[RunFacts], written_by: Mapping[str, str] | None = None) -> LearnedRelations:
    """Return the relations that held in all steps of all ranks of the runs, each of which has examples (``seen``).

    Args:
        runs: good runs.
        written_by: name and version of the program that learns.
    """
    every: dict[Subject, _Examples] = {}
    later: dict[Subject, _Examples] = {}
    for run in runs:
        for facts, one in examples_of(run):
            subject = Subject(*one[:6])
            every.setdefault(subject, _Examples()).add(one)
            if facts.step > 0:
                later.setdefault(subject, _Examples()).add(one)
    relations = [relation for subject in every for relation in _relations(subject, every, later)]
    known = {_key(one) for one in relations if NUMBER in one.path}
    relations = [
        one
        for one in relations
        if pattern_of(one.path) == one.path or (*_key(one)[:2], pattern_of(one.path)) not in known
    ]
    return LearnedRelations(
        relations,
        runs=len(runs),
        steps=sum(len(run.steps) for run in runs),
        ranks=max((len(run.ranks) for run in runs), default=0),
        written_by=dict(written_by or {}),
    )


def _key(one: Relation) -> tuple[str, str, str]:
    return one.owner, one.what, one.path


def examples_of(run: RunFacts) -> Iterator[tuple[StepFacts, Seen]]:
    """Yield the examples of each relation in each step of each rank."""
    for facts, further in observe_training(run):
        for one in chain(facts.seen, further):
            yield facts, one


def _relations(
    subject: Subject, every: Mapping[Subject, _Examples], later: Mapping[Subject, _Examples]
) -> Iterator[Relation]:
    """Yield the relation of a subject, if there is one: over all steps, else over all but step 0."""
    for first, table in ((0, every), (1, later)):
        examples = table.get(subject)
        if examples is None or examples.number < FEWEST or (first and examples.steps < FEWEST):
            continue
        found = _what_held(subject.rule, examples.counts)
        if found is not None:
            yield Relation(
                says=statement(subject, *found),
                **subject._asdict(),
                support=Support(examples.number, examples.steps),
                value=found.value,
                low=found.low,
                high=found.high,
                from_step=first,
            )
            return


def _what_held(rule: str, counts: Mapping[Value, int]) -> _Learned | None:
    """Return what all examples have in common; None for nothing."""
    values = list(counts)
    if rule == HOLDS:
        return _Learned(True) if values == [True] else None
    if rule == EQUALS:
        return _Learned(values[0]) if len(values) == 1 else None
    if rule == INCLUDES:
        common = [name for name in _names(values[0]) if all(name in _names(other) for other in values[1:])]
        return _Learned(tuple(common)) if common else None
    if rule == ORDERED:
        longest = max(values, key=lambda value: len(_names(value)))
        fits = all(is_in_order(_names(value), _names(longest)) for value in values)
        return _Learned(longest) if fits and len(_names(longest)) > 1 else None
    assert rule in (WITHIN, BELOW)
    return _band(counts, has_low=rule == WITHIN)


def _names(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def is_in_order(names: Sequence[str], order: Sequence[str]) -> bool:
    """Return whether the names that an order knows come in this order."""
    known = [name for name in names if name in order]
    return known == [name for name in order if name in known]


def _band(counts: Mapping[Value, int], has_low: bool) -> _Learned | None:
    """Return the band of sizes: all that were seen, and six median deviations around their median."""
    sizes = [float(size) for size, count in counts.items() for _ in range(count) if isinstance(size, int | float)]
    if not sizes or max(sizes) == float("inf"):
        return None
    middle = median(sizes)
    spread = _DEVIATIONS * median([abs(size - middle) for size in sizes])
    low, high = min(*sizes, middle - spread), max(*sizes, middle + spread)
    return _Learned(None, 2.0**low if has_low else None, 2.0**high)
