"""What ``msprobe check`` names: findings, which cannot be right, and hints, which a correct program may show too."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Certainty = Literal["certain", "likely", "possible"]
"""``certain`` follows from what was recorded, ``likely`` has rare correct explanations, ``possible`` is a hint."""


@dataclass(frozen=True)
class Finding:
    """One thing that cannot be right, or a hint at one.

    Args:
        rule: the name of the rule that says so.
        reason: what is wrong and why, in words.
        certainty: how sure it is; a ``possible`` one is a hint.
        step: the first step in which it shows; None where the dump has no steps.
        rank: the rank on which it shows; None where it concerns all.
        module: the path of the module, or class and path.
        parameter: the name of the parameter.
        call: the entry of the dump.
        stack: where the call is made: frames, innermost first.
        ranks: all ranks that it concerns.
        place: the position of the call among those of its step, by which findings are sorted.
    """

    rule: str
    reason: str
    certainty: Certainty = "certain"
    step: int | None = None
    rank: int | None = None
    module: str | None = None
    parameter: str | None = None
    call: str | None = None
    stack: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    place: int = 0

    @property
    def is_hint(self) -> bool:
        """Return whether a correct program may show this too."""
        return self.certainty == "possible"

    @property
    def subject(self) -> tuple[str, str, str]:
        """Return what it is about: the rule and what it names. It is told once for all steps and ranks."""
        return self.rule, self.module or "", self.parameter or self.call or ""


@dataclass(frozen=True)
class AcceptedItem:
    """A finding that the user accepts, with the reason."""

    finding: Finding
    reason: str


@dataclass(frozen=True)
class RuleState:
    """Whether a rule could judge the run; ``why`` says what it lacked."""

    name: str
    judged: bool
    why: str = ""


@dataclass(frozen=True)
class CheckDocument:
    """The result of a check: the document that ``--json`` writes, and the schema ``check.schema.json``."""

    steps: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hints: list[Finding] = field(default_factory=list)
    accepted: list[AcceptedItem] = field(default_factory=list)
    rules: list[RuleState] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def told_once(findings: list[Finding]) -> list[Finding]:
    """Return the findings in the order in which they show, each subject once, with all the ranks that it concerns."""
    ordered = sorted(findings, key=lambda one: (one.is_hint, *_order(one)))  # a hint never hides a finding
    first: dict[tuple[str, str, str], Finding] = {}
    ranks: dict[tuple[str, str, str], set[int]] = {}
    for one in ordered:
        first.setdefault(one.subject, one)
        ranks.setdefault(one.subject, set()).update(one.ranks or (() if one.rank is None else (one.rank,)))
    told = [replace(one, ranks=tuple(sorted(ranks[subject]))) for subject, one in first.items()]
    return sorted(told, key=_order)


def _order(one: Finding) -> tuple[int, int, int, str]:
    return one.step or 0, one.place, one.rank or 0, one.certainty


def check_schema() -> dict[str, object]:
    """Return the JSON Schema of the document."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    return TypeAdapter(CheckDocument).json_schema()
