"""What ranks of one run are to each other: replicas of one model, parts of one layer, stages, keepers of other experts.

Nothing of it is told by the user. It follows from the collectives that ranks make with each other, from marks of
shards, and from where parameters begin equal. A rule that holds between replicas is applied where these say so, and not
elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

from msprobe.check.facts.run_facts import Moment, ParameterHistory, RunFacts, histories
from msprobe.check.facts.step_facts import Collective, Tensor, differ

POINT_TO_POINT = frozenset({
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "send_object_list",
    "recv_object_list",
})
_ALL_TO_ALL = frozenset({"all_to_all", "all_to_all_single"})
_SYNCHRONISED = re.compile(r"SyncBatchNorm")
EXPERT = re.compile(r"expert", re.IGNORECASE)
NORMS = re.compile(r"norm", re.IGNORECASE)


@dataclass(frozen=True)
class Roles:
    """The roles of the ranks of one run."""

    run: RunFacts

    @cached_property
    def parameters(self) -> dict[int, dict[str, ParameterHistory]]:
        """The parameters of each rank."""
        return {rank: histories(steps) for rank, steps in self.run.by_rank()}

    @cached_property
    def tensor_groups(self) -> set[frozenset[int]]:
        """The groups of ranks that compute parts of one layer: they communicate inside the forward pass of modules."""
        kinds = {call.path: call.kind for facts in self.run.of.values() for call in facts.modules}
        return {
            frozenset(one.group or self.run.ranks)
            for facts in self.run.of.values()
            for one in facts.collectives
            if one.in_forward and one.module and one.function not in _ALL_TO_ALL | POINT_TO_POINT
            if not _SYNCHRONISED.search(kinds.get(one.module, "")) and _moves_activations(one)
        }

    @cached_property
    def has_stages(self) -> bool:
        """Whether ranks send activations to each other."""
        return any(one.function in POINT_TO_POINT for facts in self.run.of.values() for one in facts.collectives)

    @cached_property
    def expert_paths(self) -> set[str]:
        """The modules that exchange tokens, and so hold other experts on each rank."""
        return {
            one.module
            for facts in self.run.of.values()
            for one in facts.collectives
            if one.function in _ALL_TO_ALL and one.module
        }

    def _runs_before_exchange(self, name: str, path: str) -> bool:
        """Return whether the module of a parameter gets its input before tokens are exchanged, as a router does, in
        every step that shows both."""
        found = []
        for facts in self.run.of.values():
            module = facts.parameters[name].module if name in facts.parameters else ""
            calls = [call.place for call in facts.modules if call.path == module]
            moves = [
                one.place
                for one in facts.collectives
                if one.module == path and one.function in _ALL_TO_ALL and _moves_activations(one)
            ]
            if calls and moves:
                found.append(min(calls) < min(moves))
        return bool(found) and all(found)

    def share_layers(self, ranks: Iterable[int]) -> bool:
        """Return whether some of these ranks compute parts of one layer."""
        wanted = set(ranks)
        return any(len(group & wanted) > 1 for group in self.tensor_groups)

    def is_expert(self, name: str) -> bool:
        """Return whether a parameter may be that of an expert that one rank alone holds."""
        if EXPERT.search(name):
            return True
        return any(
            name.startswith(f"{path}.") and not self._runs_before_exchange(name, path) for path in self.expert_paths
        )

    def begin_equal(self, name: str) -> list[tuple[int, ...]]:
        """Return the ranks on which a parameter begins with the same values, in groups of two and more."""
        found = self._equal.get(name)
        if found is None:
            found = self._equal[name] = self._begin_equal(name)
        return found

    @cached_property
    def _equal(self) -> dict[str, list[tuple[int, ...]]]:
        """What ``begin_equal`` has answered, as several rules ask the same."""
        return {}

    def _begin_equal(self, name: str) -> list[tuple[int, ...]]:
        own = {rank: parameters[name].moments for rank, parameters in self.parameters.items() if name in parameters}
        own = {rank: moments for rank, moments in own.items() if moments}
        shared = set.intersection(*map(set, own.values())) if own else set()
        groups: dict[tuple[Moment, Hashable], list[int]] = defaultdict(list)
        for rank, moments in own.items():
            begin = min(shared or moments)
            groups[begin, moments[begin].key].append(rank)
        return [tuple(ranks) for ranks in groups.values() if len(ranks) > 1]

    def apart_at(self, name: str, ranks: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the first step in which a parameter differs over ranks on which it began equal, and a rank that
        differs from the first of them; None where it never does."""
        first, *others = (self.parameters[rank][name] for rank in ranks)
        found = first.first_difference(*others)
        return None if found is None else (found[0][0], ranks[1 + found[1]])

    def meet_again(self, name: str, ranks: tuple[int, ...]) -> bool:
        """Return whether a parameter that came apart is equal on these ranks in a later moment."""
        first, *others = (self.parameters[rank][name].moments for rank in ranks)
        shared = sorted(set(first).intersection(*others))
        equal = [not any(differ(other[moment], first[moment]) for other in others) for moment in shared]
        return False in equal and True in equal[equal.index(False) :]

    def in_step(self, name: str, ranks: tuple[int, ...]) -> bool:
        """Return whether a parameter has moved and is still equal on these ranks."""
        values = [self.parameters[rank][name].values() for rank in ranks if name in self.parameters[rank]]
        if not values or any(len(states) < 2 for states in values):
            return False
        moved = values[0][0][1].key != values[0][-1][1].key
        return moved and self.apart_at(name, ranks) is None

    def same_inputs(self, path: str, ranks: tuple[int, ...]) -> bool:
        """Return whether a module gets the same inputs on these ranks in its first call."""
        given: list[Tensor] = []
        for rank in ranks:
            calls = [call for facts in self.run.rank(rank)[:1] for call in facts.modules if call.path == path]
            if not calls or calls[0].given is None:
                return False
            given.append(calls[0].given)
        return bool(given) and len({tensor.key for tensor in given}) == 1


def _moves_activations(one: Collective) -> bool:
    """Return whether a collective moves more than a single number, such as a count or a loss for the log."""
    return any(tensor.size > 1 and tensor.is_float for tensor in one.given)
