"""Relations of the first steps of a run, held against its later ones: hints at what changed on the way."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from msprobe.check.facts.run_facts import RunFacts, optimizers_of
from msprobe.check.facts.step_facts import StepFacts
from msprobe.check.findings import Finding
from msprobe.check.learned.judge import Judge, LearnedResult
from msprobe.check.learned.learn import learn
from msprobe.check.learned.relations import LearnedRelations

FEWEST_STEPS = 4
"""Steps from which on a run is held to its own beginning."""
_FEWEST_LEARNED = 3


def judge_own_steps(run: RunFacts) -> LearnedResult:
    """Return hints at relations that held in the first steps of a phase (half of them, three at least) and fail later.

    The facts have no examples of sizes, which change while a model learns.
    """
    return LearnedResult([hint for phase in _phases(run) for hint in _judge_phase(phase)])


def _phases(run: RunFacts) -> Iterator[RunFacts]:
    """Yield the steps of a run by what trains in them, as another phase of a program is no change of the first one.

    That is which optimizers step, and which parameters need a gradient.
    """
    phases: dict[Hashable, list[StepFacts]] = {}
    for step in run.steps:
        ranks = run.step(step)
        phases.setdefault(tuple((facts.rank, optimizers_of(facts), _trained(facts)) for facts in ranks), []).extend(
            ranks
        )
    return map(RunFacts.from_steps, phases.values())


def _trained(facts: StepFacts) -> frozenset[str]:
    """Return which parameters of the model need a gradient; those that a call alone shows may rest in other steps."""
    return frozenset(name for name, one in facts.parameters.items() if one.requires_grad and one.left is not None)


def _judge_phase(run: RunFacts) -> Iterator[Finding]:
    if len(run.steps) < FEWEST_STEPS:
        return
    border = run.steps[max(_FEWEST_LEARNED, len(run.steps) // 2)]
    first = RunFacts({key: facts for key, facts in run.of.items() if key[0] < border})
    later = RunFacts({key: facts for key, facts in run.of.items() if key[0] >= border})
    learned = learn([first])
    sure = [one for one in learned.relations if one.support.steps >= _FEWEST_LEARNED * len(run.ranks)]
    found = Judge(LearnedRelations(sure, 1, learned.steps, learned.ranks), "the first steps")(later).findings
    yield from (replace(one, certainty="possible") for one in found if not one.is_hint)
