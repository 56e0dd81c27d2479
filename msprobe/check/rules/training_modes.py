"""Modes: dropout and batch norm act in training and rest in evaluation; what is frozen stays as it is."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import sqrt

from msprobe.check.facts.acting_modules import BATCH_NORM, DROPOUT, frozen_parts, trains
from msprobe.check.facts.calls import Call
from msprobe.check.facts.dataflow import WEIGHTED
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import NO_GRADIENTS, ModuleCall, StepFacts
from msprobe.check.findings import Finding
from msprobe.check.needs import CALLS, EVALUATION, MODULES, WITHOUT_GRADIENTS
from msprobe.check.rule import Rule, of_module_call
from msprobe.check.rules.losses.terms import LOSSES
from msprobe.compare.records.leaves import as_float

_DROPOUT_FUNCTIONS = frozenset({
    *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"),
    *("native_dropout", "feature_dropout"),
})
_ATTENTION = "scaled_dot_product_attention"
_ATTENTION_DROPOUT = 4
_ABOVE_BOUND = 1.25
_OTHER_ORDER = 1e3
_SCORES = LOSSES | {"argmax", "eq", "__eq__", "topk"}


def dropout_in_evaluation(view: StepView) -> Iterator[Finding]:
    """Yield calls of functions that drop elements while the module around them is in evaluation mode."""
    told: set[str] = set()
    for call in view.calls:
        if call.phase != "forward" or call.is_module:
            continue
        share = _dropped(call)
        if share is None or call.module in told:
            continue
        around = view.dump.data.get(call.parent)
        in_evaluation = isinstance(around, dict) and around.get("training") is False
        if not in_evaluation and not (not call.parent and _is_between_evaluated(view, call)):
            continue
        told.add(call.module)
        reason = (
            f"{call.function} drops {share:g} of the elements while {call.module or 'the module around it'} is in "
            "evaluation mode: the function is not told the mode of the module (training=self.training, dropout_p), "
            "unless it drops in evaluation on purpose"
        )
        by_hand = call.function == "bernoulli_" and not DROPOUT.search(call.parent)  # it may be a sample
        yield view.finding("dropout_in_evaluation", call, reason, certainty="possible" if by_hand else "likely")


def _is_between_evaluated(view: StepView, call: Call) -> bool:
    """Return whether a function outside of recorded modules, as in the forward of the model itself, runs without
    gradients, and the modules that run before and after it are in evaluation mode."""
    if call.body.get("autograd") not in NO_GRADIENTS:
        return False
    modes = [(one.place, one.training) for one in view.facts.modules if one.training is not None]
    before = [mode for place, mode in modes if place < call.place][-1:]
    after = [mode for place, mode in modes if place > call.place][:1]
    return bool(before or after) and not any(before + after)


def _dropped(call: Call) -> float | None:
    """Return the share that a call of a function drops; None where it drops nothing."""
    if call.function in _DROPOUT_FUNCTIONS:
        share, active = call.argument(1, "p"), call.argument(2, "training")
        share = 0.5 if share is None else share
        acts = active is not False
    elif call.function == "bernoulli_" and call.parent:
        kept = call.argument(1, "p")  # a mask that a module makes by hand; a tensor of chances is a sample
        share, acts = (1.0 - kept if isinstance(kept, float) and 0.0 < kept < 1.0 else None), True
    elif call.function == _ATTENTION:
        share, acts = call.argument(_ATTENTION_DROPOUT, "dropout_p"), True
    else:
        return None
    return as_float(share) if acts and isinstance(share, (int, float)) and share > 0.0 else None


def _concerns(call: ModuleCall) -> bool:
    return bool(DROPOUT.search(call.kind) or BATCH_NORM.search(call.kind))


def wrong_mode(run: RunFacts) -> Iterator[Finding]:
    """Yield modules that train in evaluation mode after they trained in training mode."""
    for rank, steps in run.by_rank():
        yield from _left_in_evaluation(rank, steps)


def evaluated_in_training(run: RunFacts) -> Iterator[Finding]:
    """Yield passes without gradients in training mode where nothing is trained."""
    for rank, steps in run.by_rank():
        yield from _evaluates_in_training(rank, steps)


def _left_in_evaluation(rank: int, steps: list[StepFacts]) -> Iterator[Finding]:
    calls: dict[str, list[tuple[StepFacts, ModuleCall]]] = {}
    for facts, call in _acting(steps):
        calls.setdefault(call.path, []).append((facts, call))
    for path, found in calls.items():
        trained = next((facts.step for facts, call in found if call.training), None)
        late = [(facts, call) for facts, call in found if trained is not None and facts.step > trained]
        late = [(facts, call) for facts, call in late if _only_evaluates(facts, path)]
        if late and all(_only_evaluates(facts, path) for facts, _ in found if facts.step >= late[0][0].step):
            facts, call = late[0]
            reason = (
                f"{call.kind} {path} trains in training mode in step {trained} and in evaluation mode from step "
                f"{facts.step} on: model.train() is missing after an evaluation"
            )
            yield of_module_call("evaluation_mode_in_training", reason, "certain", facts, call)
            return
    every = [path for path, found in calls.items() if all(call.training is False for _, call in found)]
    if every and len(every) == len(calls):
        facts, call = calls[every[0]][0]
        others = f" and {len(every) - 1} more" if len(every) > 1 else ""
        reason = (
            f"{call.kind} {every[0]}{others} never act: the model is trained in evaluation mode (model.train() was not "
            "called, as after from_pretrained)"
        )
        yield of_module_call("evaluation_mode_in_training", reason, "possible", facts, call)


def _acting(steps: list[StepFacts]) -> Iterator[tuple[StepFacts, ModuleCall]]:
    """Yield the calls of modules that act in training alone, in steps that train, but for what is frozen."""
    for facts in filter(trains, steps):
        frozen = frozen_parts(facts)
        for call in facts.modules:
            left_alone = call.frozen or call.path.partition(".")[0] in frozen
            if _concerns(call) and call.autograd in {None, "grad"} and not call.recompute and not left_alone:
                yield facts, call


def _only_evaluates(facts: StepFacts, path: str) -> bool:
    """Return whether all calls of a module with gradients in a step are in evaluation mode."""
    calls = [call for call in facts.modules if call.path == path and call.autograd in {None, "grad"}]
    return bool(calls) and all(call.training is False for call in calls)


def _evaluates_in_training(rank: int, steps: list[StepFacts]) -> Iterator[Finding]:
    with_gradients = {
        call.path for facts in steps for call in facts.modules if call.autograd == "grad" and _concerns(call)
    }
    idle = [
        facts
        for facts in steps
        if not facts.has_backward and not any(call.recompute or call.autograd == "grad" for call in facts.modules)
    ]
    for facts, call in ((one, call) for one in idle for call in one.modules):
        if _concerns(call) and call.training and call.path in with_gradients:
            effect = "its running statistics change" if BATCH_NORM.search(call.kind) else "elements are dropped"
            reason = (
                f"{call.kind} {call.path} is in training mode in a pass without gradients, in a step that trains "
                f"nothing: {effect} while the model is evaluated (model.eval() is missing)"
            )
            yield of_module_call("training_mode_in_evaluation", reason, "likely", facts, call)
            return


def validates_in_training(view: StepView) -> Iterator[Finding]:
    """Yield passes without gradients in training mode at the end of a step that trains, of whose results a score or a
    loss is made.

    Passes before the last step of an optimizer may serve the training: they make samples, targets or rollouts.
    """
    facts = view.facts
    if not facts.updates or not facts.has_backward:
        return
    begin = max(update.after for update in facts.updates)
    if not any(call.phase == "forward" and call.place >= begin for call in view.calls):
        return
    trained = {call.path for call in facts.modules if call.autograd == "grad" and call.place < begin}
    late = [call for call in facts.modules if call.place >= begin and call.without_gradients]
    late = [call for call in late if call.path in trained]
    acting = [call for call in late if _concerns(call)]
    # dropout alone may be put into training mode on purpose, for several samples of one answer
    if not acting or not all(call.training for call in late) or len(late) == len(acting):
        return
    after = [call for call in view.calls if call.place > acting[0].place and call.phase == "forward"]
    if any(call.phase == "backward" and call.place > acting[0].place for call in view.calls):
        return
    if any(not call.is_module and not call.module and call.function in _SCORES for call in after):
        call = acting[0]
        effect = "its running statistics change" if BATCH_NORM.search(call.kind) else "elements are dropped"
        reason = (
            f"{call.kind} {call.path} is in training mode in a pass without gradients after the last step of the "
            f"optimizer, of which a score or a loss is made: {effect} while the model is evaluated (model.eval() is "
            "missing)"
        )
        yield of_module_call("training_mode_in_evaluation", reason, "likely", facts, call)


def other_size(run: RunFacts) -> Iterator[Finding]:
    """Yield modules that make of the same input a result of another order in evaluation than in training."""
    for facts in run.every():
        made: dict[tuple[str, Hashable], ModuleCall] = {}
        modes = {(call.path, call.training) for call in facts.modules}
        both = {path for path, training in modes if training and (path, False) in modes}
        for call in facts.modules if both else ():
            if call.given is None or call.returned is None or call.path not in both or not call.given.norm > 0.0:
                continue
            other = made.setdefault((call.path, call.given.key), call)
            assert other.returned is not None
            sizes = sorted((one.root_mean_square for one in (call.returned, other.returned)), reverse=True)
            alike = call.returned.shape == other.returned.shape and call.returned.dtype == other.returned.dtype
            if alike and other.training != call.training and sizes[1] > 0.0 and sizes[0] > _OTHER_ORDER * sizes[1]:
                evaluated = other if call.training else call
                reason = (
                    f"{call.kind} {call.path} makes of the same input a result {sizes[0] / sizes[1]:.3g} times as "
                    "large in one mode as in the other: the statistics or vectors that it uses in evaluation are not "
                    "ready (eval() came before a pass in training mode)"
                )
                yield of_module_call("modes_disagree", reason, "likely", facts, evaluated)
                return


def spectral_norm(view: StepView) -> Iterator[Finding]:
    """Yield weights that are to have a spectral norm of 1 and cannot have it."""
    normalised = {
        path
        for path, call in ((call.path, call) for call in view.calls if call.is_module and call.phase == "forward")
        if any(leaf.suffix.endswith("weight_orig") for leaf in call.parameters) and _has_vectors(view, path)
    }
    told: set[str] = set()
    for call in view.calls:
        if call.phase != "forward":
            continue
        if call.is_module and call.function == "_SpectralNorm":
            weight, path = call.result, call.path.split(".parametrizations.")[0]
        elif not call.is_module and call.module in normalised and call.function in WEIGHTED:
            weight, path = call.tensor(1, "weight"), call.module
        else:
            continue
        if weight is None or path in told or len(weight.shape) < 2 or not weight.is_finite:
            continue
        rows = weight.shape[0]
        bound = sqrt(min(rows, weight.size // max(rows, 1)))
        if weight.norm > _ABOVE_BOUND * bound:
            told.add(path)
            reason = (
                f"the weight of {path} is to have a spectral norm of 1, so its norm is at most {bound:.3g}, and it is "
                f"{weight.norm:.3g}: the vectors of the power iteration are not ready (eval() came before a pass in "
                "training mode)"
            )
            yield view.finding("spectral_norm_not_ready", call, reason, module=path, certainty="certain")


def _has_vectors(view: StepView, path: str) -> bool:
    """Return whether calls inside a module divide by the estimate of its spectral norm: a dot product or its result."""
    inside = {call.function for call in view.calls if call.module == path and not call.is_module}
    return bool(inside & {"dot", "mv", "vdot"})


RULES = (
    Rule(
        "dropout_in_evaluation",
        "modes",
        "Nothing is dropped in evaluation mode.",
        (CALLS, MODULES, EVALUATION),
        "likely",
        "Pass training=self.training, or dropout_p=self.p if self.training else 0.0.",
        of_step=dropout_in_evaluation,
    ),
    Rule(
        "evaluation_mode_in_training",
        "modes",
        "A model that is trained is in training mode, where it has dropout or batch norm.",
        (MODULES,),
        "certain",
        "Call model.train() after each evaluation.",
        of_run=wrong_mode,
    ),
    Rule(
        "training_mode_in_evaluation",
        "modes",
        "A pass that evaluates a model runs in evaluation mode.",
        (MODULES, CALLS, WITHOUT_GRADIENTS),
        "likely",
        "Call model.eval() before an evaluation.",
        of_step=validates_in_training,
        of_run=evaluated_in_training,
    ),
    Rule(
        "modes_disagree",
        "modes",
        "A module makes results of one order of the same input in both modes.",
        (MODULES, EVALUATION),
        "likely",
        "Run passes in training mode before eval(), until its statistics are those of the data.",
        of_run=other_size,
    ),
    Rule(
        "spectral_norm_not_ready",
        "modes",
        "A weight under spectral norm has a spectral norm of 1.",
        (CALLS, MODULES),
        "certain",
        "Run a pass in training mode before eval(), or use torch.nn.utils.parametrizations.spectral_norm.",
        of_step=spectral_norm,
    ),
)
