"""Relations of the first steps of a run, held against its later ones: hints at what changed on the way."""

from __future__ import annotations

from dataclasses import replace

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.learned.judge import Judge, LearnedResult
from msprobe.check.learned.learn import learn
from msprobe.check.learned.relations import LearnedRelations

FEWEST_STEPS = 4
"""Steps from which on a run is held to its own beginning."""
_FEWEST_LEARNED = 3


def judge_own_steps(run: RunFacts) -> LearnedResult:
    """Return hints at relations that held in the first steps (half of them, three at least) and fail later.

    The facts have no examples of sizes, which change while a model learns.
    """
    if len(run.steps) < FEWEST_STEPS:
        return LearnedResult()
    border = run.steps[max(_FEWEST_LEARNED, len(run.steps) // 2)]
    first = RunFacts({key: facts for key, facts in run.of.items() if key[0] < border})
    later = RunFacts({key: facts for key, facts in run.of.items() if key[0] >= border})
    learned = learn([first])
    sure = [one for one in learned.relations if one.support.steps >= _FEWEST_LEARNED * len(run.ranks)]
    found = Judge(LearnedRelations(sure, 1, learned.steps, learned.ranks), "the first steps")(later).findings
    return LearnedResult([replace(one, certainty="possible") for one in found if not one.is_hint])
