"""Runs with examples of one relation."""

from __future__ import annotations

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Seen, SeenValue, StepFacts
from msprobe.check.findings import Finding
from msprobe.check.learned.judge import Judge
from msprobe.check.learned.relations import LearnedRelations
from msprobe.check.learned.table import Value

EPS = ("argument", "LayerNorm", "layers.{n}.norm", "eps of layer_norm", "training", "equals")
ROWS = ("output", "Softmax", "layers.{n}.softmax", "rows sum to 1", "", "holds")
CALLS = ("contained", "training step", "", "calls", "with a step of an optimizer", "includes")
ORDER = ("order", "training step", "", "calls", "", "ordered")
SIZE = ("output", "Linear", "head", "size of the result", "training", "within")


def run_of(subject: tuple[str, ...], *steps: Value, path: str | None = None, first: int = 0) -> RunFacts:
    """Return a run with one example of a subject in each step."""
    kind, owner, known, *rest = subject
    facts = []
    for number, value in enumerate(steps, first):
        seen = Seen(
            kind, owner, path or known, *rest, values=[SeenValue(value, 1, f"call{number}", 3, "layers.0.norm")]
        )  # type: ignore[arg-type]
        facts.append(StepFacts(number, 0, "dump.json", "mix", "pytorch", seen=[seen]))
    return RunFacts.from_steps(facts)


def findings(relations: LearnedRelations, run: RunFacts) -> list[Finding]:
    return Judge(relations, "relations.json")(run).findings
