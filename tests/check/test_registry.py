"""Every rule has what the catalogue says of it, and the page in the guide is that of the registry."""

from __future__ import annotations

from msprobe.check.catalogue import catalogue
from msprobe.check.needs import NEEDS
from msprobe.check.registry import RULE_NAMES, RULES
from tests.rules.tree import ROOT


def test_the_page_is_not_stale() -> None:
    page = (ROOT / "docs" / "guide" / "check_rules.md").read_text(encoding="utf-8")
    assert page == catalogue(), "run scripts/check_rules"


def test_rules_are_complete() -> None:
    assert len(set(RULE_NAMES)) == len(RULES)
    for rule in RULES:
        assert rule.sentence.endswith(".")
        assert rule.remedy.endswith(".")
        assert set(rule.needs) <= NEEDS.keys()
