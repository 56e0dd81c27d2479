"""Frozen parts: what is frozen stays frozen, keeps its statistics and drops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msprobe.check.facts.acting_modules import BATCH_NORM, DROPOUT, frozen_parts, trains
from msprobe.check.facts.run_facts import RunFacts, optimizers_of
from msprobe.check.facts.step_facts import ModuleCall, StepFacts
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import MODULES, PARAMETERS, STEPS
from msprobe.check.rule import Rule, of_module_call


def frozen_statistics(run: RunFacts) -> Iterator[Finding]:
    """Yield batch norms without a parameter that needs a gradient, which go on in training mode."""
    for _, steps in run.by_rank():
        modes: dict[str, list[tuple[StepFacts, ModuleCall]]] = {}
        trainable = any(state.requires_grad for facts in steps for state in facts.parameters.values())
        some_train = False
        for facts, call in ((one, call) for one in filter(trains, steps) for call in one.modules):
            if BATCH_NORM.search(call.kind) and call.frozen:
                modes.setdefault(call.path, []).append((facts, call))
            elif BATCH_NORM.search(call.kind):
                some_train = True
        wrong = [path for path, found in modes.items() if any(call.training for _, call in found)]
        if not wrong or not trainable:
            continue
        facts, call = next(pair for pair in modes[wrong[0]] if pair[1].training)
        changed = any(one.training is False for _, one in modes[wrong[0]])
        others = f" (also {', '.join(wrong[1:4])})" if len(wrong) > 1 else ""
        reason = (
            f"{call.kind} {wrong[0]}{others} is frozen, no parameter of it needs a gradient, and it is in training "
            "mode: it normalises by each batch and goes on changing its running statistics (train() undoes the eval() "
            "of a frozen stage)"
        )
        # Where all of them are frozen and none was ever set to evaluation, their statistics may be adapted on purpose.
        certainty: Certainty = "certain" if changed else "likely" if some_train else "possible"
        yield of_module_call("frozen_norm_in_training", reason, certainty, facts, call)


def frozen_again(run: RunFacts) -> Iterator[Finding]:
    """Yield parameters that begin or cease to need a gradient between steps of the same optimizers.

    Other optimizers begin another phase of the program, as a plan has it.
    """
    for rank, steps in run.by_rank():
        for before, after in pairwise(steps):
            if optimizers_of(before) != optimizers_of(after):
                continue
            changed = [
                name
                for name, state in after.parameters.items()
                if name in before.parameters and before.parameters[name].requires_grad != state.requires_grad
            ]
            if changed:
                now = "needs" if after.parameters[changed[0]].requires_grad else "no longer needs"
                reason = (
                    f"{changed[0]} {now} a gradient from step {after.step} on ({len(changed)} parameters change so): "
                    "this is right where layers are frozen or thawed by a plan, and wrong where train() or a wrapper "
                    "undoes it"
                )
                yield Finding("frozen_state_changes", reason, "possible", after.step, rank,
                              changed[0].rpartition(".")[0] or None, changed[0])  # fmt: skip
                return


def frozen_dropout(run: RunFacts) -> Iterator[Finding]:
    """Yield a dropout that acts in a frozen part of the model, such as a teacher, whose results are targets."""
    for facts in filter(trains, run.every()):
        frozen = frozen_parts(facts)
        for call in facts.modules if frozen else ():
            drops = call.training and DROPOUT.search(call.kind) and call.path.partition(".")[0] in frozen
            if drops and call.without_gradients and _changes(call):
                reason = (
                    f"{call.kind} {call.path} drops elements in a frozen part of the model, which runs without "
                    "gradients: its results are other ones each time (eval() was not called for it, or train() of the "
                    "whole undoes it)"
                )
                yield of_module_call("frozen_part_in_training", reason, "possible", facts, call)
                return


def _changes(call: ModuleCall) -> bool:
    """Return whether a module returns other values than it gets."""
    return call.given is not None and call.returned is not None and call.given.key != call.returned.key


RULES = (
    Rule(
        "frozen_norm_in_training",
        "modes",
        "A batch norm that is frozen keeps its statistics.",
        (MODULES,),
        "certain",
        "Put frozen stages into evaluation mode in the train() of the model.",
        of_run=frozen_statistics,
    ),
    Rule(
        "frozen_part_in_training",
        "modes",
        "Dropout rests in a part of the model that is frozen and only gives targets.",
        (MODULES, PARAMETERS),
        "possible",
        "Put frozen parts into evaluation mode in the train() of the model.",
        of_run=frozen_dropout,
    ),
    Rule(
        "frozen_state_changes",
        "modes",
        "What is frozen stays frozen.",
        (MODULES, STEPS),
        "possible",
        "See what sets requires_grad between the steps.",
        of_run=frozen_again,
    ),
)
