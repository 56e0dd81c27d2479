"""Terms of losses and results: each term reaches a parameter, generation ends where it was told to."""

from __future__ import annotations

from collections.abc import Iterator

from msprobe.check.facts.calls import Call
from msprobe.check.facts.dataflow import cut_off, differentiated, gradients_of_inputs, mark, mark_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import RunFacts, trained_calls
from msprobe.check.facts.step_facts import HALF_PRECISION, BatchTensor, Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import BACKWARD, CALLS, TRAINING_RECORDS
from msprobe.check.rule import Rule
from msprobe.check.rules.losses.targets import ELEMENTWISE
from msprobe.core.store.record_walk import Leaf

_BEGUN, _FEWEST_PREDICTIONS = 2, 4
LOSSES = ELEMENTWISE | {
    *("cross_entropy", "nll_loss", "ctc_loss", "hinge_embedding_loss", "cosine_embedding_loss", "gaussian_nll_loss"),
    *("triplet_margin_loss", "margin_ranking_loss", "multi_margin_loss"),
}
"""Functions that compute a loss."""


_ADDITIONS = frozenset({"__add__", "__radd__", "__iadd__", "add", "add_"})


def without_path(view: StepView) -> Iterator[Finding]:
    """Yield losses that are part of what is differentiated and have no path to a parameter themselves."""
    if not view.facts.has_backward:
        return
    cut = [
        call
        for call in view.calls
        if call.function in LOSSES and call.phase == "forward" and call.returned and not view.evaluation(call.name)
        if call.returned[0].raw.get("requires_grad") is False
    ]
    alive = differentiated(view.calls) if cut else ()
    for call in cut:
        if mark(call.returned[0].raw) in alive:
            reason = (
                f"the result of {call.function} is added to what is differentiated and needs no gradient: it has no "
                "path to a parameter, so this term trains nothing (its input is detached, or comes from a part "
                "without gradients)"
            )
            yield view.finding("loss_without_path", call, reason, certainty="likely")


def added_without_path(view: StepView) -> Iterator[Finding]:
    """Yield sums of two single numbers that are differentiated, of which one is made of results of the model and needs
    no gradient."""
    sums = [(call, cut) for call in view.calls if (cut := _without_gradient(call)) is not None]
    if not sums or not view.facts.has_backward:
        return
    trained = (parameter for parameter in view.facts.parameters.values() if parameter.requires_grad)
    values = (parameter.used or parameter.left for parameter in trained)
    known = {mark_of(value) for value in values if value is not None}
    cut_ones = cut_off(view.calls, known | gradients_of_inputs(view.calls))
    alive = differentiated(view.calls)
    for call, cut in sums:
        if cut in cut_ones and cut in alive:
            reason = (
                f"{call.function} adds a number that is made of results of the model and needs no gradient to a loss: "
                "it has no path to a parameter, so this term trains nothing (it is made of counts, of an argmax, of a "
                "detached result, or of a gradient without create_graph=True)"
            )
            yield view.finding("loss_without_path", call, reason, certainty="likely")
            return


def _without_gradient(call: Call) -> int | None:
    """Return the mark of the term of a sum of two single numbers that needs no gradient, where the other needs one."""
    if call.phase != "forward" or call.function not in _ADDITIONS or len(call.given) != 2 or call.parent:
        return None
    terms = [leaf.raw for leaf in call.given]
    needs = [raw.get("requires_grad") is True for raw in terms]
    if sum(needs) != 1 or not call.returned or any(tensor_of(raw).size != 1 for raw in terms):
        return None
    cut = terms[needs.index(False)]
    return None if tensor_of(cut).largest in {0.0, 1.0} else mark(cut)


def cut_by_sampling(view: StepView) -> Iterator[Finding]:
    """Yield random numbers that are drawn without gradients from a distribution that the model makes, and that a module
    gets on the way to the loss."""
    drawn: dict[int, Call] = {}
    for call in view.calls:
        if call.phase != "forward":
            continue
        if call.function == "normal" and not call.is_module:
            needs = [leaf.raw.get("requires_grad") is True for leaf in (*call.given, *call.returned)]
            if any(needs[: len(call.given)]) and not any(needs[len(call.given) :]):
                drawn.update((own, call) for own in call.returned_marks)
        elif call.is_module and drawn and call.body.get("autograd") in {None, "grad"}:
            source = next((drawn[own] for own in call.given_marks if own in drawn), None)
            if source is not None and any(leaf.raw.get("requires_grad") is True for leaf in call.returned):
                reason = (
                    f"{source.function} draws numbers without a gradient from a mean or deviation that needs one, and "
                    f"{call.path or 'a module'} gets them: no gradient of the loss goes back through the sample"
                )
                yield view.finding("gradient_cut_by_sampling", source, reason, certainty="likely")
                return


def no_gradient_at_all(run: RunFacts) -> Iterator[Finding]:
    """Yield backward passes that bring a gradient to no parameter.

    Where one comes back to a module that has parameters, the loss has a path to it, and other tensors stood in for its
    parameters (``torch.func.functional_call``).
    """
    for facts in run.every():
        backward = [call for call in facts.training if call.kind == "backward"]
        trained = {call.path for call in trained_calls(facts)}
        trainable = [
            name
            for name, state in facts.parameters.items()
            if state.requires_grad and state.called and state.module in trained
        ]
        owners = {facts.parameters[name].module for name in trainable}
        if any(call.reached and call.path in owners for call in facts.modules):
            continue
        gets = any(facts.gradients.values()) or any(update.gradients for update in facts.updates)
        ready = any(state.left is not None for state in facts.parameters.values())
        if backward and trainable and not gets and ready and facts.modules:
            reason = (
                f"a backward pass runs and brings a gradient to none of {len(trainable)} parameters that need one, "
                f"such as {trainable[0]}: the loss has no path to the model"
            )
            yield Finding(
                "loss_without_path", reason, "certain", facts.step, facts.rank, parameter=trainable[0],
                module=trainable[0].rpartition(".")[0] or None, stack=backward[0].stack,
            )  # fmt: skip
            return


def terms_without_path(view: StepView) -> Iterator[Finding]:
    """Yield the terms of a loss that train nothing."""
    yield from without_path(view)
    yield from added_without_path(view)


def generation(run: RunFacts) -> Iterator[Finding]:
    """Yield generations that return more tokens or other numbers of sequences than they were told to."""
    calls = ((facts, call) for facts in run.every() for call in facts.training if call.kind == "generate")
    for facts, call in calls:
        words = _generated(call.facts)
        if words is not None:
            yield Finding("generation_too_long", words, "certain", facts.step, facts.rank, stack=call.stack)
            return


def _generated(said: dict[str, object] | object) -> str | None:
    facts = said if isinstance(said, dict) else {}
    given, returned = facts.get("given"), facts.get("returned")
    if not isinstance(given, int) or not isinstance(returned, int):
        return None
    new = returned - 1 if facts.get("encoder_decoder") else returned - given
    asked, longest = facts.get("max_new_tokens", facts.get("max_tokens")), facts.get("max_length")
    if isinstance(asked, int) and new > asked:
        return (
            f"generate was asked for at most {asked} new tokens and returns {new} (prompt {given}, in all {returned})"
        )
    if not isinstance(asked, int) and isinstance(longest, int) and returned > max(longest, given):
        return f"generate was told a length of at most {longest} and returns {returned} tokens"
    return None


def merged_batch(view: StepView) -> Iterator[Finding]:
    """Yield steps in which one input holds as a single sample what another one holds as a batch."""
    for call in view.calls:
        if len(call.given) < 2 or not call.is_module or call.phase != "forward":
            continue
        items, result = _listed(call), call.result
        if result is None:
            continue
        if len(items) > 1 and len(result.shape) == len(items[0].shape) + 2 and result.shape[:2] == (1, len(items)):
            reason = (
                f"{call.function} gets {len(items)} items and returns shape {list(result.shape)}: they are merged into "
                "one sample instead of a batch"
            )
            yield view.finding("batch_merged", call, reason, certainty="likely")
            return
    yield from _inputs_disagree(view)
    yield from _equal_predictions(view)


def _is_made(view: StepView, loss: Call, value: float) -> bool:
    """Return whether a function before a loss returns nothing but this number."""
    return any(
        leaf.raw.get("Max") == value == leaf.raw.get("Min")
        for call in view.calls
        if call.phase == "forward" and not call.is_module and call.place < loss.place
        for leaf in call.returned
    )


def _equal_predictions(view: StepView) -> Iterator[Finding]:
    """Yield a loss whose predictions are all one number while the targets are not.

    A last layer of zeros begins so, and in half precision few samples may be equal by chance. A number that is learned
    for all samples is made by no function.
    """
    for call in view.calls if view.facts.step >= _BEGUN else ():
        if call.phase != "forward" or call.is_module or call.function not in ELEMENTWISE:
            continue
        own, target = call.tensor(0, "input"), call.tensor(1, "target")
        if own is None or target is None or min(own.size, target.size) < _FEWEST_PREDICTIONS or not call.given:
            continue
        trained = call.given[0].raw.get("requires_grad") is True and own.is_measured and target.is_measured
        if own.dtype in HALF_PRECISION or own.largest == 0.0:
            continue
        if trained and own.is_constant and not target.is_constant and _is_made(view, call, own.largest):
            reason = (
                f"{call.function} gets {own.size} predictions that are all {own.largest:.6g}, and targets that differ: "
                "the samples of a batch were merged into one on the way, or a layer before is dead"
            )
            yield view.finding("batch_merged", call, reason, certainty="likely")
            return


def _listed(call: Call) -> list[Tensor]:
    """Return the tensors of a list that is the first argument, where all have one shape."""
    tensors = [tensor_of(leaf.raw) for leaf in call.given if leaf.suffix.startswith(".input.0.")]
    return tensors if len({tensor.shape for tensor in tensors}) == 1 else []


def _as_given(view: StepView) -> Iterator[BatchTensor]:
    """Yield the data of the step in the shape and place in which the outermost module gets them."""
    getting: dict[int, tuple[Call, Leaf]] = {}
    for call in view.calls if view.facts.batch else ():
        if call.is_module:
            getting.update((own, (call, leaf)) for own, leaf in zip(call.given_marks, call.given, strict=False))
    for one in view.facts.batch:
        found = getting.get(mark_of(one.value))
        if found is None:
            yield one
        else:
            call, leaf = found
            yield BatchTensor(f"{call.name}{leaf.suffix}", call.path, tensor_of(leaf.raw), call.place)


def _inputs_disagree(view: StepView) -> Iterator[Finding]:
    """Yield an input of the model that is one sample where the others are batches of as many as it has parts.

    A function inside may have read it first, after a view that is not recorded: then the outermost module that gets it
    says which shape it has.
    """
    data = [one for one in _as_given(view) if not one.value.is_constant and one.value.shape and one.value.size > 2]
    sizes = [one.value.shape[0] for one in data]
    for one in data:
        shape = one.value.shape
        if len(shape) < 3 or shape[0] != 1 or not one.value.is_float or not one.module:
            continue
        others = [
            size for size, other in zip(sizes, data, strict=True) if size == shape[1] > 1 < len(other.value.shape)
        ]
        if others and not any(size == 1 for size, other in zip(sizes, data, strict=True) if other is not one):
            call = next(each for each in view.calls if each.place == one.place)
            reason = (
                f"the model gets one sample of shape {list(shape)}, and the other inputs of the step are batches of "
                f"{shape[1]}: {shape[1]} items were merged into one sample"
            )
            certainty: Certainty = "likely"
            yield view.finding("batch_merged", call, reason, certainty=certainty)
            return


RULES = (
    Rule(
        "loss_without_path",
        "losses",
        "What is differentiated has a path to the parameters, and so has each of its terms.",
        (CALLS, BACKWARD),
        "certain",
        "Look for detach(), no_grad, .data, .item(), numpy() or autograd.grad() without create_graph=True between the "
        "model and the loss.",
        of_step=terms_without_path,
        of_run=no_gradient_at_all,
    ),
    Rule(
        "gradient_cut_by_sampling",
        "losses",
        "A sample that a module gets passes gradients on to the distribution that it is drawn from.",
        (CALLS, BACKWARD),
        "likely",
        "Draw it with rsample(), or as mean + deviation * noise.",
        of_step=cut_by_sampling,
    ),
    Rule(
        "generation_too_long",
        "losses",
        "Generation returns no more tokens than it was asked for.",
        (TRAINING_RECORDS,),
        "certain",
        "Look at how the length of the prompt is counted and which setting wins.",
        of_run=generation,
    ),
    Rule(
        "batch_merged",
        "losses",
        "All inputs of a step hold the same number of samples.",
        (CALLS,),
        "likely",
        "Look at what the processor or the collate function makes of a list.",
        of_step=merged_batch,
    ),
)
