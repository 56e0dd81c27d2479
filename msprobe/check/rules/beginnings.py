"""Beginnings: parameters are initialised once and so that they can move, and batches do not repeat."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from math import isfinite, log

from msprobe.check.facts.calls import Call
from msprobe.check.facts.patterns import NUMBER, pattern_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import ParameterHistory, RunFacts, gradient_of, histories
from msprobe.check.facts.step_facts import BatchTensor, StepFacts, Tensor
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import BACKWARD, CALLS, OPTIMIZERS, PARAMETERS, STEPS
from msprobe.check.rule import Rule
from msprobe.check.rules.parameters import per_module
from msprobe.compare.records.entries import OF_PARAMETERS
from msprobe.trace.values import mark

_FILLS = frozenset({"normal_", "uniform_", "exponential_", "log_normal_", "cauchy_", "trunc_normal_", "fill_", "zero_"})
_RANDOM = _FILLS - {"fill_", "zero_"}
_REPLACED, _TIMES_MOVED = 0.3, 10.0
_PARTLY, _PARTLY_MOVED = 0.1, 100.0
_FEWEST_NUMBERS, _FEWEST_BATCHES = 16, 3
_OWN_VECTORS = re.compile(r"\.parametrizations\.|SpectralNorm|^Torch\.(mv|v?dot)\.")
"""Calls that get vectors that a module keeps from step to step."""
_UNLIKE, _FEWEST_LAYERS, _SMALL = 30.0, 4, 1e-30
_ENOUGH_STEPS = 3


def initialised_again(view: StepView) -> Iterator[Finding]:
    """Yield parameters that are filled with random numbers after the training has begun, or twice before it."""
    filled: dict[int, Call] = {}
    begun = view.facts.step > 0
    told = 0
    for call in view.calls:
        if call.phase != "forward":
            begun = begun or call.phase == "backward"
            continue
        if call.is_module or call.function not in _FILLS or call.parent in OF_PARAMETERS or not call.given:
            continue
        raw = call.given[0].raw
        if raw.get("requires_grad") is not True:
            continue
        before = filled.get(mark(raw))
        if call.function in _RANDOM and begun and told < 4:
            told += 1
            reason = (
                f"{call.function} fills a parameter of shape {raw.get('shape')} with random numbers after the training "
                "has begun: what was learned or loaded is lost"
            )
            yield view.finding("initialised_again", call, reason, certainty="certain")
        elif before is not None and told < 4 and _same_filling(before, call):
            told += 1
            reason = (
                f"{call.function} fills the same parameter of shape {raw.get('shape')} a second time with the same "
                f"arguments (first in {before.name}): it is initialised repeatedly"
            )
            yield view.finding("initialised_again", call, reason, certainty="likely")
        if call.returned:
            filled[mark(call.returned[0].raw)] = call


def _same_filling(one: Call, other: Call) -> bool:
    """Return whether two calls fill a tensor with the same random numbers."""
    arguments = [call.body.get("input_args", [])[1:] for call in (one, other)]
    return one.function == other.function in _RANDOM and arguments[0] == arguments[1]


def replaced(run: RunFacts) -> Iterator[Finding]:
    """Yield parameters that something else than the recorded steps changes far more than these do."""
    for rank, steps in run.by_rank():
        found = []
        for history in histories(steps).values():
            jump = next(_jumps(history), None)
            if jump is not None:
                before, after, moved, jumped = jump
                reason = (
                    f"{history.name} changes by {jumped:.2g} of its size between step {before} and step {after}, "
                    f"outside of any recorded step (these move it by {moved:.2g}): it is initialised or loaded again, "
                    "which is right only where layers are reset by a plan"
                )
                certainty: Certainty = "likely" if jumped > _REPLACED else "possible"  # it may be pruned on purpose
                found.append((history, Finding("", reason, certainty, after, rank, parameter=history.name)))
        yield from per_module("initialised_again", found)


def _jumps(history: ParameterHistory) -> Iterator[tuple[int, int, float, float]]:
    """Yield the steps between which a parameter changes by itself, how far its last step moved it, and the change."""
    for (before, own), (after, then) in pairwise(history.states):
        if after.step != before.step + 1 or own.left is None or then.used is None or own.used is None:
            continue
        if own.left == then.used:
            continue
        moved, jumped = _distance(own.used, own.left), _distance(own.left, then.used)
        far = jumped > _REPLACED and jumped > _TIMES_MOVED * moved
        if (far or jumped > _PARTLY > _PARTLY_MOVED * moved > 0.0) and own.requires_grad and before.updates:
            yield before.step, after.step, moved, jumped


def _distance(one: Tensor, other: Tensor) -> float:
    """Return how far the statistics of two tensors say at least that they are apart, relative to their size."""
    scale = max(one.norm, other.norm)
    if not scale > 0.0 or one.shape != other.shape:
        return 0.0
    return max(abs(one.norm - other.norm), abs(one.order - other.order)) / scale


def repeated_batches(run: RunFacts) -> Iterator[Finding]:
    """Yield batches that come several times, where other ones come between or after them."""
    for rank, steps in run.by_rank():
        workers = max(map(_workers, steps))
        uses, order = _batches(steps, workers)
        first = next((at for at in range(1, len(order)) if order[at] in order[:at]), None)
        if first is not None:
            earlier = steps[order.index(order[first])].step
            certainty, reason = _repetition(_runs(order), workers, steps[first].step, earlier)
            call = _inputs(steps[first])[uses[0]].consumer.split(".input", 1)[0]
            yield Finding("batches_repeat", reason, certainty, steps[first].step, rank, call=call)


def _batches(steps: Sequence[StepFacts], workers: int) -> tuple[list[str], list[Hashable]]:
    """Return the inputs that hold the samples, which are the largest ones, and their values in each step.

    Lengths and classes may come again where the samples do not. What stays the same in all steps is no batch, unless
    each of many workers has loaded it.
    """
    given = [_inputs(facts) for facts in steps]
    orders = {name: [one[name].value for one in given] for name in sorted(set.intersection(*map(set, given)))}
    moving = {
        name: order for name, order in orders.items() if len(order) <= workers or len({one.key for one in order}) > 1
    }
    if len(steps) < _FEWEST_BATCHES or not moving:
        return [], []
    sizes = {name: sum(one.size for one in order) for name, order in moving.items()}
    names = [name for name, size in sizes.items() if size == max(sizes.values())]
    return names, [tuple(moving[name][at].key for name in names) for at in range(len(steps))]


def _repetition(runs: Sequence[int], workers: int, step: int, earlier: int) -> tuple[Certainty, str]:
    """Return how sure it is that batches repeat by mistake, and why."""
    if runs[0] < 2 or any(count != runs[0] for count in runs[:-1]) or runs[-1] > runs[0]:
        return "possible", (
            f"the batch of step {step} is that of step {earlier}: the order of an epoch repeats (no shuffling, the "
            "same seed, or set_epoch is not called)"
        )
    if workers > 1 and (runs[0] == workers or len(runs) == 1):
        return "likely", (
            f"batches come {runs[0]} times each, and {workers} workers load them: each worker draws the same random "
            "numbers (they have one seed, or a generator that all of them copied)"
        )
    return "possible", (
        f"batches come {runs[0]} times each: workers of a data loader with one seed do so, and several epochs over "
        "each batch on purpose"
    )


def _workers(facts: StepFacts) -> int:
    """Return how many daemons, such as workers of data loaders, lived at the end of a step."""
    counts = [call.facts.get("count") for call in facts.training if call.kind == "child_processes"]
    return max((count for count in counts if isinstance(count, int)), default=0)


def _inputs(facts: StepFacts) -> dict[str, BatchTensor]:
    """Return the inputs of a step with enough numbers not to be equal by chance, by what uses each."""
    return {
        one.use or one.consumer: one
        for one in facts.batch
        if not one.value.is_constant and one.value.is_measured and one.value.size >= _FEWEST_NUMBERS
        if not one.value.is_mask and not _OWN_VECTORS.search(one.consumer)
    }


def _runs(order: Sequence[object]) -> list[int]:
    """Return how often each batch comes in a row."""
    runs = [1]
    for before, after in pairwise(order):
        if before == after:
            runs[-1] += 1
        else:
            runs.append(1)
    return runs


def unlike_siblings(run: RunFacts) -> Iterator[Finding]:
    """Yield parameters that begin far larger or smaller than those of the other layers of their kind."""
    for rank, steps in run.by_rank():
        kinds: dict[tuple[str, tuple[int, ...]], list[tuple[str, float]]] = {}
        for name, state in steps[0].parameters.items():
            value, template = state.used, pattern_of(name)
            if value is not None and len(value.shape) > 1 and template.count(NUMBER) == 1 and isfinite(value.norm):
                kinds.setdefault((template, value.shape), []).append((name, value.norm))
        for found in kinds.values():
            usual = sorted(norm for _, norm in found)[len(found) // 2]
            name, norm = max(found, key=lambda one: abs(log((one[1] + _SMALL) / (usual + _SMALL))))
            apart = max(norm, usual) > _UNLIKE * min(norm, usual)
            if len(found) >= _FEWEST_LAYERS and apart:
                reason = (
                    f"{name} begins with a norm of {norm:.3g}, and the same weight of {len(found) - 1} other layers "
                    f"with about {usual:.3g}: it may be damaged in its checkpoint, or initialised otherwise"
                )
                yield Finding("weight_unlike_its_kind", reason, "possible", steps[0].step, rank, parameter=name)


def zeros_forever(run: RunFacts) -> Iterator[Finding]:
    """Yield pairs of weights side by side that are all zeros, and whose gradients are zeros as long as that is so."""
    for rank, steps in run.by_rank():
        trained = [facts for facts in steps if facts.updates and facts.has_backward]
        parameters = histories(trained)
        moving = sum(any(rate > 0.0 for rate in update.rates) for facts in trained for update in facts.updates)
        if min(len(trained), moving) < _ENOUGH_STEPS:
            continue
        zeros = [name for name, history in parameters.items() if _stays_zero(history)]
        pairs = [names for names in pairwise(zeros) if _are_of_one_layer(*names)]
        if pairs:
            first, second = pairs[0]
            others = f"; {len(pairs) - 1} more pairs are so" if len(pairs) > 1 else ""
            reason = (
                f"{first} and {second} are all zeros and get gradients of exactly 0 in all {len(trained)} steps: "
                "where both weights of a product begin with zeros, neither can ever move"
                f"{others}"
            )
            yield Finding("weights_stay_zero", reason, "likely", trained[0].step, rank, first.rpartition(".")[0],
                          first)  # fmt: skip


def _are_of_one_layer(one: str, other: str) -> bool:
    """Return whether two names are of one layer, such as ``q.lora_A.weight`` and ``q.lora_B.weight``."""
    left, right = one.split("."), other.split(".")
    differing = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
    return len(left) == len(right) and len(differing) == 1 and not any(part.isdecimal() for part in differing[0])


def _stays_zero(history: ParameterHistory) -> bool:
    values = history.moments.values()
    zeros = bool(values) and all(value.norm == 0.0 and len(value.shape) > 1 for value in values)
    gradients = [gradient_of(facts, history.name) for facts, _ in history.states] if zeros else []
    return bool(gradients) and all(found and all(one.norm == 0.0 for one in found) for found in gradients)


RULES = (
    Rule(
        "initialised_again",
        "beginnings",
        "A parameter is initialised once, and from then on only optimizers move it.",
        (CALLS,),
        "certain",
        "See who calls the initialisation again; load weights after it.",
        of_step=initialised_again,
        of_run=replaced,
    ),
    Rule(
        "weight_unlike_its_kind",
        "beginnings",
        "Weights of equal layers begin with about the same size.",
        (PARAMETERS,),
        "possible",
        "Compare the checkpoint with its source: msprobe config_check -c A B.",
        of_run=unlike_siblings,
    ),
    Rule(
        "weights_stay_zero",
        "beginnings",
        "Of two weights that are multiplied, one at least begins with other numbers than zeros.",
        (BACKWARD, OPTIMIZERS, PARAMETERS, STEPS),
        "likely",
        "Begin one of both with random numbers, as LoRA does with A.",
        of_run=zeros_forever,
    ),
    Rule(
        "batches_repeat",
        "beginnings",
        "Batches differ from step to step.",
        (CALLS, STEPS),
        "likely",
        "Seed each worker differently (worker_init_fn), and call the sampler's set_epoch.",
        of_run=repeated_batches,
    ),
)
