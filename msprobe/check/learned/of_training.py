"""Examples that a whole run gives: calls that move a training on, values of several ranks, data of several steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msprobe.check.facts.patterns import pattern_of
from msprobe.check.facts.roles import Roles
from msprobe.check.facts.run_facts import RunFacts, gradient_of
from msprobe.check.facts.step_facts import ROUNDED_STATISTICS, Seen, StepFacts, Tensor, differ
from msprobe.check.learned.of_parameters import see_kept, see_parameter, see_parameters, see_tied
from msprobe.check.learned.table import BELOW, EQUALS, HOLDS, INCLUDES, ORDERED, SeenTable, size_step
from msprobe.core.naming import NameSyntaxError, split_entry

STEP = "training step"
_EVENTS = ("zero_grad", "backward", "clip_grad", "optimizer_step", "scheduler_step")
_FEWEST_ELEMENTS = 16
"""Elements below which data may be equal by chance."""
_STEPS_BEFORE = 2
"""Steps within which data do not come again; a small data set begins anew soon."""
_GRADIENTS_NEAR = 1e-4


def observe_training(run: RunFacts) -> Iterator[tuple[StepFacts, list[Seen]]]:
    """Yield the examples of each step of each rank that need other steps or ranks too."""
    roles = Roles(run)
    tables = {key: SeenTable() for key in run.of}
    layout = _layout(roles) if len(run.ranks) > 1 else ""
    for step in run.steps:
        ranks = run.step(step)
        if len(ranks) > 1:
            table = tables[step, ranks[-1].rank]
            _see_ranks(table, ranks, roles, layout)
            if not roles.tensor_groups and not roles.has_stages:
                _see_distinct(table, ranks, "differ on each rank")
    for rank in run.ranks:
        steps = run.rank(rank)
        for number, facts in enumerate(steps):
            if number and facts.step == steps[number - 1].step + 1:
                see_kept(tables[facts.step, rank], steps[number - 1], facts)
            for before in steps[max(0, number - _STEPS_BEFORE) : number]:
                _see_distinct(tables[facts.step, rank], [before, facts], "differ from the steps before")
    for key, facts in run.of.items():
        yield facts, tables[key].seen()


def with_examples(facts: StepFacts, with_sizes: bool) -> StepFacts:
    """Return the facts of a step of which no calls are recorded, with the examples that it shows."""
    table = SeenTable(with_sizes)
    see_step(table, facts)
    return replace(facts, seen=table.seen())


def see_step(table: SeenTable, facts: StepFacts) -> None:
    """Add what one step of one rank shows without its calls."""
    _see_events(table, facts)
    see_parameters(table, facts)
    see_tied(table, facts)
    _see_rows(table, facts)


def _see_events(table: SeenTable, facts: StepFacts) -> None:
    """Add which calls move the training on, in which order, and how often schedulers step."""
    kinds = [call.kind for call in facts.training if call.kind in _EVENTS]
    collectives = tuple(sorted({one.function for one in facts.collectives}))
    if facts.has_backward and collectives:
        subject = ("contained", STEP, "", "collectives", "with a backward pass", INCLUDES)
        table.add(subject, collectives, name=STEP)
    if "optimizer_step" not in kinds:
        return
    first = tuple(dict.fromkeys(kinds))
    subject = ("contained", STEP, "", "calls", "with a step of an optimizer", INCLUDES)
    table.add(subject, tuple(sorted(first)), name=STEP)
    steps, scheduled = kinds.count("optimizer_step"), kinds.count("scheduler_step")
    if kinds.count("backward") == steps == 1:
        table.add(("order", STEP, "", "calls", "with one backward and one step", ORDERED), first, name=STEP)
    subject = ("argument", STEP, "", "number of scheduler steps for each step of an optimizer", "", EQUALS)
    table.add(subject, round(scheduled / steps, 3), name=STEP)
    for update in facts.updates if table.with_sizes else ():
        owner = f"optimizer {update.optimizer} ({update.kind})"
        for rate in update.rates:
            size = size_step(rate)
            if size is not None:
                table.add(("argument", owner, "", "learning rate", "", BELOW), size, name=owner)


def _see_ranks(table: SeenTable, ranks: list[StepFacts], roles: Roles, layout: str) -> None:
    """Add which parameters and gradients are equal on all ranks of a step."""
    for name, parameter in ranks[-1].parameters.items():
        if parameter.sharded or roles.is_expert(name):
            continue
        states = [facts.parameters.get(name) for facts in ranks]
        values = [state and (state.left or state.used) for state in states]
        if all(values):
            see_parameter(table, name, "equal on all ranks", HOLDS, _are_equal(values), when=layout)
        gradients = [gradient_of(facts, name)[:1] for facts in ranks]
        if all(gradients):
            equal = _are_equal([one[0] for one in gradients], _GRADIENTS_NEAR)
            see_parameter(table, name, "gradient equal on all ranks", HOLDS, equal, when=layout)


def _are_equal(values: list[Tensor | None], near: float = ROUNDED_STATISTICS) -> bool:
    first, *others = (value for value in values if value is not None)
    return not any(differ(other, first, near) for other in others)


def _layout(roles: Roles) -> str:
    """Return in words how ranks share the work, for preconditions."""
    words = [
        "that share layers" if roles.tensor_groups else "",
        "in stages" if roles.has_stages else "",
        "with experts" if roles.expert_paths else "",
    ]
    return " ".join(["ranks", *(word for word in words if word)]) if any(words) else "ranks with the whole model"


def _see_distinct(table: SeenTable, several: list[StepFacts], how: str) -> None:
    """Add which data are other ones in each of several records."""
    data = [_data(facts) for facts in several]
    for consumer in data[0]:
        values = [one[consumer].key for one in data if consumer in one]
        if len(values) == len(data):
            function, path = consumer
            subject = ("argument", STEP, path, f"data that {function} gets {how}", "", HOLDS)
            table.add(subject, len(set(values)) == len(values), name=STEP)


def _see_rows(table: SeenTable, facts: StepFacts) -> None:
    """Add whether all data of a step have as many rows."""
    rows = {one.value.shape[0] for one in facts.batch if len(one.value.shape) > 1 and not one.value.is_constant}
    if len(_data(facts)) > 1:
        table.add(
            ("consistent", STEP, "", "all data have the same number of rows", "", HOLDS), len(rows) == 1, name=STEP
        )


def _data(facts: StepFacts) -> dict[tuple[str, str], Tensor]:
    """Return the first tensor that each consumer of data gets, if it is large and neither a mask nor constant."""
    found: dict[tuple[str, str], Tensor] = {}
    for one in facts.batch:
        value = one.value
        if value.size < _FEWEST_ELEMENTS or value.is_constant or not value.is_measured or value.is_mask:
            continue
        try:
            function = split_entry(one.consumer.split(".input", 1)[0])[0].rpartition(".")[2]
        except NameSyntaxError:
            continue
        found.setdefault((function, pattern_of(one.module)), value)
    return found
