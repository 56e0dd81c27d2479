"""One run as rules of several steps and ranks see it: steps x ranks of immutable facts, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from msprobe.check.facts.step_facts import ModuleCall, Parameter, StepFacts, Tensor, Update, differ

Moment = tuple[int, bool]
"""A step, and whether its optimizer steps were made."""


@dataclass(frozen=True)
class RunFacts:
    """The steps of all ranks of one run."""

    of: Mapping[tuple[int, int], StepFacts]

    @classmethod
    def from_steps(cls, steps: Iterable[StepFacts]) -> RunFacts:
        """Return the run that these steps make."""
        return cls({(one.step, one.rank): one for one in sorted(steps, key=lambda one: (one.step, one.rank))})

    @cached_property
    def steps(self) -> list[int]:
        """The numbers of the steps."""
        return sorted({step for step, _ in self.of})

    @cached_property
    def ranks(self) -> list[int]:
        """The numbers of the ranks."""
        return sorted({rank for _, rank in self.of})

    def rank(self, rank: int) -> list[StepFacts]:
        """Return the steps of one rank in order."""
        return [facts for (_, number), facts in self.of.items() if number == rank]

    def step(self, step: int) -> list[StepFacts]:
        """Return one step of all ranks."""
        return [facts for (number, _), facts in self.of.items() if number == step]

    def every(self) -> Iterator[StepFacts]:
        """Yield the steps of all ranks, rank by rank."""
        for rank in self.ranks:
            yield from self.rank(rank)

    def by_rank(self) -> Iterator[tuple[int, list[StepFacts]]]:
        """Yield each rank with its steps."""
        for rank in self.ranks:
            yield rank, self.rank(rank)


@dataclass(frozen=True)
class ParameterHistory:
    """One parameter of one rank over the steps: values and gradients, in order."""

    name: str
    states: list[tuple[StepFacts, Parameter]]

    @property
    def last(self) -> Parameter:
        """Return its last state."""
        return self.states[-1][1]

    @property
    def requires_grad(self) -> bool:
        """Return whether it needs a gradient in every recorded step."""
        return all(state.requires_grad for _, state in self.states)

    @property
    def moves(self) -> bool:
        """Return whether its value changes."""
        return any(one.key != other.key for one, other in pairwise(self.moments.values()))

    def values(self) -> list[tuple[int, Tensor]]:
        """Return its values in order with their steps: as the step used it, and as the step left it."""
        return self._values

    @cached_property
    def moments(self) -> dict[Moment, Tensor]:
        """Its values in order: before the optimizer steps of a step, as the calls used it, and after them."""
        every = [(facts.step, state.used, state.left) for facts, state in self.states]
        if any(used is not None and left is not None and used.shape != left.shape for _, used, left in every):
            every = [(step, used, None) for step, used, _ in every]  # gathered for the call, and a shard afterwards
        both = [one for step, used, left in every for one in (((step, False), used), ((step, True), left))]
        return {moment: value for moment, value in both if value is not None and value.is_measured}

    @cached_property
    def _values(self) -> list[tuple[int, Tensor]]:
        return [(step, value) for (step, _), value in self.moments.items()]

    def first_difference(self, *others: ParameterHistory) -> tuple[Moment, int] | None:
        """Return the first moment in which one of the others has another value, and its position among them.

        Only moments that all of them have are compared: a rank that does not call a module in a step has no value
        from before its optimizer steps.
        """
        shared = [moment for moment in self.moments if all(moment in other.moments for other in others)]
        return next(
            (
                (moment, position)
                for moment in shared
                for position, other in enumerate(others)
                if differ(other.moments[moment], self.moments[moment])
            ),
            None,
        )


def histories(steps: list[StepFacts]) -> dict[str, ParameterHistory]:
    """Return the history of every parameter of one rank. The last answers are kept, as many rules ask the same."""
    return _histories(tuple(map(_Same, steps)))


class _Same:
    """One object as a key: equal to itself alone."""

    def __init__(self, facts: StepFacts) -> None:
        self.facts = facts

    def __hash__(self) -> int:
        return id(self.facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.facts is other.facts


@lru_cache(maxsize=64)
def _histories(keys: tuple[_Same, ...]) -> dict[str, ParameterHistory]:
    steps = [key.facts for key in keys]
    found: dict[str, ParameterHistory] = {}
    for facts in steps:
        for name, state in facts.parameters.items():
            found.setdefault(name, ParameterHistory(name, [])).states.append((facts, state))
    return found


def updates_of(steps: list[StepFacts]) -> list[tuple[StepFacts, Update]]:
    """Return the optimizer steps of one rank in order."""
    return [(facts, update) for facts in steps for update in facts.updates]


def optimizers_of(facts: StepFacts) -> frozenset[tuple[str, tuple[str | None, ...]]]:
    """Return which optimizers step in a step: the class of each, and the parameters that it holds."""
    return frozenset((update.kind, update.parameters) for update in facts.updates)


def gradient_of(facts: StepFacts, name: str) -> list[Tensor]:
    """Return the gradients of a parameter in a step: as optimizers get them, else as backward passes bring them."""
    found = [update.gradients[name] for update in facts.updates if update.gradients and name in update.gradients]
    return found or list(facts.gradients.get(name, ()))


def common_factor(pairs: Iterable[tuple[float, float]], near: float) -> float | None:
    """Return by what all norms were multiplied since they were first measured; None where that is no one number.

    Args:
        pairs: each norm afterwards, and before.
        near: how far the factors may be apart, relative to their size.
    """
    factors = [after / before for after, before in pairs if 0.0 < before < math.inf and math.isfinite(after)]
    same = bool(factors) and all(math.isclose(one, factors[0], rel_tol=near) for one in factors)
    return factors[0] if same else None


def trained_calls(facts: StepFacts) -> list[ModuleCall]:
    """Return the forward calls of modules that gradients flow through."""
    return [call for call in facts.modules if call.autograd in {None, "grad"} and not call.recompute]


def all_names(group: Iterable[str], shared: Iterable[list[str]]) -> set[str]:
    """Return names with those of the same tensor."""
    names = set(group)
    for names_of_one in shared:
        if names & set(names_of_one):
            names |= set(names_of_one)
    return names
