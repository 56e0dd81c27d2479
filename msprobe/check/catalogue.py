"""The catalogue of rules as a page: ``docs/guide/check_rules.md``, which a test compares with the registry."""

from __future__ import annotations

from collections.abc import Iterator

from msprobe.check.needs import NEEDS
from msprobe.check.registry import RULES
from msprobe.check.rule import Rule

_SURE = {
    "certain": "a finding; certain where the records show it",
    "likely": "a finding; a few correct programs may do this on purpose",
    "possible": "a hint",
}


def catalogue() -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The rules of msprobe check"
    yield ""
    yield "The rules of [msprobe check](check.md), as the code has them; `scripts/check_rules` writes this page."
    yield ""
    yield "Each says what holds in a correct run. Where a program may break it on purpose, it gives a hint, no finding."
    for family in dict.fromkeys(rule.family for rule in RULES):
        yield ""
        yield f"## {family.capitalize()}"
        for rule in RULES:
            if rule.family == family:
                yield from _rule(rule)


def _rule(rule: Rule) -> Iterator[str]:
    yield ""
    yield f"### {rule.name}"
    yield ""
    yield rule.sentence
    yield ""
    yield f"- Says: {_SURE[rule.certainty]}."
    yield f"- What to do: {rule.remedy}"
    yield "- Not judged where:"
    yield from (f"    - {NEEDS[need].missing}" for need in rule.needs)
