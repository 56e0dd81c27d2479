"""What a rule is: a name, the sentence that it holds a run to, what it needs, and how sure its findings are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import ModuleCall, StepFacts
from msprobe.check.findings import Certainty, Finding

Need = str
"""One of the keys of ``NEEDS``."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. It judges each step by itself (``of_step``), or the whole run (``of_run``).

    Args:
        name: how findings, accept files and the catalogue call it.
        family: the chapter of the catalogue.
        sentence: what always holds in a correct run.
        needs: what the run must have recorded (keys of ``needs.NEEDS``).
        certainty: of its surest findings.
        remedy: what to look at.
        first_only: whether only the first step counts in which it finds anything, as the rest follows from that.
    """

    name: str
    family: str
    sentence: str
    needs: tuple[Need, ...]
    certainty: Certainty
    remedy: str
    of_step: Callable[[StepView], Iterable[Finding]] | None = None
    of_run: Callable[[RunFacts], Iterable[Finding]] | None = None
    first_only: bool = False


def of_module_call(rule: str, reason: str, certainty: Certainty, facts: StepFacts, call: ModuleCall) -> Finding:
    """Return a finding about a call of a module in a step."""
    return Finding(rule, reason, certainty, facts.step, facts.rank, call.path, call=call.name, place=call.place)
