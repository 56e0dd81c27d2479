"""Hold a run to learned relations: the violations of one kind of cause are one finding, at the first place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msprobe.check.facts.patterns import same_place
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import SeenValue, StepFacts
from msprobe.check.findings import Certainty, Finding, RuleState
from msprobe.check.learned.learn import examples_of, is_in_order
from msprobe.check.learned.relations import LEARNED_RULES, LearnedRelations, Relation
from msprobe.check.learned.table import BELOW, EQUALS, HOLDS, INCLUDES, ORDERED, WITHIN, Subject, Value
from msprobe.check.learned.wording import now, remedy_of

NEAR, FAR = 4.0, 7.0
"""How many powers of two beyond its band a size is a hint, and a finding."""
_SURE_STEPS = 3
_MOST_PLACES = 3
_ONE_CAUSE: Mapping[str, str] = {
    "gradient equal on all ranks": "equal on all ranks",
    "gets a gradient": "changes in a step of the optimizer",
    "training of dropout": "mode",
    "training of batch_norm": "mode",
}
"""Statements that fail together, by the one they are told under."""

_Example = tuple[StepFacts, Subject, Sequence[SeenValue]]


@dataclass(frozen=True)
class LearnedResult:
    """What relations say of a run: findings and hints, which kinds could judge, and what to tell beside."""

    findings: list[Finding] = field(default_factory=list)
    states: list[RuleState] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Violation(NamedTuple):
    """One value that a relation does not allow."""

    relation: Relation
    seen: SeenValue
    step: int
    rank: int
    certainty: Certainty

    @property
    def order(self) -> tuple[int, int, int]:
        """Return where it shows: step, position of the call (what has none shows at the end), rank."""
        return self.step, self.seen.place if self.seen.call else 1 << 60, self.rank

    @property
    def cause(self) -> tuple[str, bool]:
        """Return what violations of one cause have in common."""
        what = self.relation.what.partition(" of group ")[0].partition(" (")[0]
        what = "dtype" if what.startswith("dtype") else "data" if what.startswith("data that") else what
        return _ONE_CAUSE.get(what, what), self.certainty == "possible"


class Judge:
    """Holds runs to the relations of a document; ``source`` names it in notes."""

    def __init__(self, document: LearnedRelations, source: str) -> None:
        self._document = document
        self._source = source
        self._known: dict[tuple[str, ...], dict[str, Relation]] = {}
        for relation in document.relations:
            self._known.setdefault(_statement(relation), {})[relation.path] = relation
        self._present: dict[tuple[str, ...], set[str]] = {}
        self._found: dict[Subject, Relation | None] = {}

    def __call__(self, run: RunFacts) -> LearnedResult:
        """Return what the relations say of a run."""
        judged: set[int] = set()
        examples = [(facts, Subject(*one[:6]), one.values) for facts, one in examples_of(run)]
        self._found, self._present = {}, {}
        for _, subject, _ in examples:
            self._present.setdefault(_statement(subject), set()).add(subject.path)
        violations = list(self._violations(examples, judged))
        states = []
        for rule in LEARNED_RULES:
            fits = any(f"learned:{one.kind}" == rule and id(one) in judged for one in self._document.relations)
            why = "" if fits else f"no relation of this kind in {self._source} fits this run"
            states.append(RuleState(rule, fits, why))
        count = len(self._document.relations)
        held = f"Held to {len(judged)} of {count} relations of {self._source}"
        rest = "" if len(judged) == count else "; the modules or conditions of the others do not occur in this run"
        return LearnedResult(list(findings_of(violations)), states, [held + rest])

    def _relation(self, subject: Subject) -> Relation | None:
        """Return the relation of a subject: that of its path, or of one that ends like it and that this run has not,
        as another part of a model may end like one that both runs have."""
        if subject not in self._found:
            key = _statement(subject)
            known, present = self._known.get(key, {}), self._present[key]
            place = same_place(subject.path, [path for path in known if path == subject.path or path not in present])
            self._found[subject] = None if place is None else known[place]
        return self._found[subject]

    def _violations(self, examples: Sequence[_Example], judged: set[int]) -> Iterator[Violation]:
        for facts, subject, values in examples:
            relation = self._relation(subject)
            if relation is None or facts.step < relation.from_step:
                continue
            judged.add(id(relation))
            for value in values:
                certainty = violated(relation, value.value)
                if certainty is not None:
                    yield Violation(relation, value, facts.step, facts.rank, certainty)


def _statement(one: Subject | Relation) -> tuple[str, ...]:
    """Return what is said, without the place that it is said of."""
    return one.kind, one.owner, one.what, one.when, one.rule


def violated(relation: Relation, value: Value) -> Certainty | None:
    """Return how sure it is that a value violates a relation; None if it does not."""
    rule, learned = relation.rule, relation.value
    if rule in (WITHIN, BELOW):
        return _beyond(relation, value)
    held = False
    if rule in (EQUALS, HOLDS):
        held = value == learned
    elif isinstance(value, tuple) and isinstance(learned, tuple):
        held = set(learned) <= set(value) if rule == INCLUDES else is_in_order(value, learned)
    assert rule in (EQUALS, HOLDS, INCLUDES, ORDERED)
    if held:
        return None
    return "certain" if relation.support.steps >= _SURE_STEPS else "likely"


def _beyond(relation: Relation, value: Value) -> Certainty | None:
    if not isinstance(value, int | float):
        return None  # a file may say it of a value that has no size
    above = value - math.log2(relation.high) if relation.high else 0.0
    below = math.log2(relation.low) - value if relation.low else 0.0
    if above > FAR:
        return "likely"
    return "possible" if max(above, below) > NEAR else None


def findings_of(violations: Iterable[Violation]) -> Iterator[Finding]:
    """Yield one finding for each cause, at its first place; sizes that leave their band after another finding are
    hints, as they follow from it."""
    causes: dict[tuple[str, bool], list[Violation]] = {}
    ordered = sorted(violations, key=lambda one: one.order)
    for one in ordered:
        causes.setdefault(one.cause, []).append(one)
    strict = [one.step for one in ordered if one.relation.rule not in (WITHIN, BELOW)]
    sizes = [one for one in ordered if one.relation.rule in (WITHIN, BELOW) and one.certainty != "possible"]
    first_size = sizes[0].cause if sizes else None
    for cause, members in causes.items():
        finding = _finding(members)
        if members[0].relation.rule in (WITHIN, BELOW):
            follows = bool(strict) and min(strict) <= members[0].step
            if follows or cause != first_size:
                finding = replace(finding, certainty="possible")
        yield finding


def _finding(members: list[Violation]) -> Finding:
    first = members[0]
    relation, seen = first.relation, first.seen
    support = relation.support
    is_module = relation.owner not in ("parameter", "training step", "") and not relation.owner.startswith("optimizer ")
    others = list(dict.fromkeys(one.seen.name for one in members if one.seen.name != seen.name))
    count = sum(one.seen.number for one in members)
    places = f" ({count} examples in all)" if count > 1 else ""
    places += (
        f"; the same at {len(others)} further places, such as {', '.join(others[:_MOST_PLACES])}" if others else ""
    )
    instead = now(relation.rule, relation.what, relation.value, seen.value)
    reason = (
        f"{relation.says}: this held in all {support.examples} examples of {support.steps} steps it was learned from; "
        f"in {seen.name or seen.call}, step {first.step}, {instead}{places}; {remedy_of(relation.what)}"
    )
    return Finding(
        f"learned:{relation.kind}",
        reason,
        first.certainty,
        first.step,
        first.rank,
        module=seen.name if is_module else None,
        parameter=seen.name if relation.owner == "parameter" else None,
        call=seen.call or None,
        ranks=tuple(sorted({one.rank for one in members})),
        place=seen.place,
    )
