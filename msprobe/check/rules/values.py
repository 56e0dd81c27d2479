"""Values: NaN and infinity with their source, layers that are dead or saturated, depth."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import isfinite, sqrt
from typing import TYPE_CHECKING

from msprobe.check.facts.calls import Call
from msprobe.check.facts.patterns import NUMBER, pattern_of
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.run_facts import RunFacts, trained_calls
from msprobe.check.facts.step_facts import HALF_PRECISION, ModuleCall, StepFacts, Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import CALLS, MODULES
from msprobe.check.rule import Rule
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import CLIPPING
from msprobe.core.errors import ReadError
from msprobe.core.store.record_walk import Leaf
from msprobe.trace.values import has_mark

if TYPE_CHECKING:
    from msprobe.core.dump.tasks.nonfinite_source import Source

_RECTIFIERS = re.compile(r"^(relu6?_?|threshold_?|clamp_min|hardswish|silu|gelu|celu_?|ReLU6?|SiLU|GELU|Hardswish)$")
_TANH = re.compile(r"^(tanh_?|hardtanh_?|softsign|Tanh|Hardtanh|Softsign)$")
_SIGMOID = re.compile(r"^(sigmoid_?|hardsigmoid|Sigmoid|Hardsigmoid)$")
_ACTIVATIONS = re.compile("|".join(one.pattern for one in (_RECTIFIERS, _TANH, _SIGMOID)))
_LOOKS_FOR_THEM = frozenset({"isnan", "isfinite", "isinf", "nan_to_num", "nanmean", "nansum", "nanmedian"})
"""Functions by which programs find values that are missing in their data."""
_COMPARES = frozenset({"eq", "ne", "__eq__", "__ne__"})
_MAY_OVERFLOW = frozenset({
    *("square", "pow", "__pow__", "mul", "__mul__", "matmul", "__matmul__", "norm", "sum", "cumsum"),
})
"""Functions whose result may be too large for its dtype although what they get is not."""
_FEWEST = 32
_MOST_SOURCES = 64
_NEAR_ONE = 0.9999
_GROWTH, _GROWTH_HINT = 1e3, 1e2
_FEWEST_LAYERS = 3


def non_finite(view: StepView) -> Iterator[Finding]:
    """Yield the first NaN or infinity of a step that no program writes on purpose."""
    if not view.non_finite:
        return
    source = _source(view)
    if source is None:
        return
    call = next((call for call in view.calls if call.name == source.name), None)
    low = call is not None and any("float16" in str(leaf.raw.get("dtype")) for leaf in (*call.given, *call.returned))
    clips = call is not None and call.parent == CLIPPING
    in_gradients = clips or ".backward" in source.name or ".parameters_grad" in source.name
    scaled = in_gradients and (low or not view.facts.updates)
    certainty: Certainty = "possible" if scaled else "certain"
    more = "; a gradient scaler skips such a step" if scaled else ""
    yield Finding(
        "non_finite", f"{source.reason}{more}", certainty, view.facts.step, view.facts.rank,
        None if call is None else call.path or None, call=source.name, place=source.entry,
    )  # fmt: skip


def _source(view: StepView) -> Source | None:
    """Return the first call with a value that is not finite and that counts.

    Infinities of tensors that need no gradient do not: programs make them where they compute positions. Nor does NaN
    of such tensors where a program looks for it, as for values that are missing.
    """
    from msprobe.core.dump.tasks.nonfinite_source import find_source  # not free, and only wanted for such values

    dump, names = view.dump, list(view.dump.data)
    calls = {call.name: call for call in view.calls}
    looks = any(map(_looks_for_them, view.calls))
    begin = 0
    for _ in range(_MOST_SOURCES):
        try:
            source = find_source({name: dump.data[name] for name in names[begin:]})
        except ReadError:
            return None
        if source is None:
            return None
        call = calls.get(source.name)
        if call is None or not _is_aside(call, source, looks):
            return replace(source, entry=source.entry + begin)
        begin += source.entry + 1
    return None


def _is_aside(call: Call, source: Source, looks: bool) -> bool:
    """Return whether a call gets or makes such values on purpose: they are infinities of tensors that need no gradient,
    or NaN of such tensors in a program that looks for them."""
    infinity = source.reason.startswith("infinity")
    if call.phase != "forward" or not (infinity or looks):
        return False
    if infinity and call.function in _MAY_OVERFLOW and all(tensor_of(one.raw).is_finite for one in call.given):
        return False  # it is too large for its dtype
    if infinity and any(leaf.raw.get("requires_grad") is True and _is_nan(leaf) for leaf in call.returned):
        return False  # what is trained gets NaN of it
    leaf = next((leaf for leaf in (*call.given, *call.returned) if leaf.suffix.lstrip(".") == source.slot), None)
    return leaf is not None and leaf.raw.get("requires_grad") is False


def _is_nan(leaf: Leaf) -> bool:
    largest = tensor_of(leaf.raw).largest
    return largest != largest and has_mark(leaf.raw)


def _looks_for_them(call: Call) -> bool:
    """Return whether a call finds values that are missing in data, which need no gradient."""
    if call.is_finite or any(leaf.raw.get("requires_grad") is True for leaf in call.given):
        return False
    values = [tensor_of(leaf.raw).key for leaf in call.given]
    with_itself = call.function in _COMPARES and len(values) == 2 and values[0] == values[1]  # NaN is not equal to NaN
    return call.function in _LOOKS_FOR_THEM or with_itself


def dead_layers(view: StepView) -> Iterator[Finding]:
    """Yield activations that return only zeros, or only their limits, for inputs that vary."""
    told: set[str] = set()
    for call in view.calls:
        if not _ACTIVATIONS.match(call.function) or call.phase != "forward" or call.is_module:
            continue
        if not call.given or view.evaluation(call.name):
            continue
        result, given = call.result, tensor_of(call.given[0].raw)
        if result is None or result.size < _FEWEST or not result.is_finite or given.is_constant:
            continue
        words = _dead(call, result) or _saturated(call, result)
        where = f"{call.module}.{call.function}"
        if words is not None and where not in told:
            told.add(where)
            certainty: Certainty = "likely" if in_phase(call.name, "backward") in view.dump.data else "possible"
            yield view.finding("dead_activation", call, words, certainty=certainty)


def _dead(call: Call, result: Tensor) -> str | None:
    cut = call.function.startswith("hardtanh") and call.argument(1, "min_val") == 0.0  # ReLU6 and its like
    if (cut or _RECTIFIERS.match(call.function)) and result.is_constant and result.largest == 0.0:
        return (
            f"{call.function} returns 0 for all {result.size} elements: no gradient passes it, so all units of the "
            "layer are dead"
        )
    return None


def _saturated(call: Call, result: Tensor) -> str | None:
    squares = result.norm**2 / result.size
    if _TANH.match(call.function) and sqrt(squares) > _NEAR_ONE:
        return f"{call.function} is saturated: its {result.size} results lie at -1 and 1, where no gradient passes"
    if _SIGMOID.match(call.function) and abs(result.mean - squares) < 1e-5 and result.norm == result.norm:
        return f"{call.function} is saturated: its {result.size} results lie at 0 and 1, where no gradient passes"
    return None


def distributions(view: StepView) -> Iterator[Finding]:
    """Yield softmaxes whose rows do not add up to 1."""
    for call in view.calls:
        if "oftmax" not in call.function or call.phase != "forward" or "log" in call.function.lower():
            continue
        result = call.result
        if result is None or not result.shape or not isfinite(result.mean) or not result.is_float:
            continue
        if call.function.lower() in {"gumbel_softmax", "adaptivelogsoftmaxwithloss"}:
            continue
        axis = call.argument(1, "dim")
        lengths = set(result.shape)
        chosen = (
            result.shape[axis] if isinstance(axis, int) and -len(result.shape) <= axis < len(result.shape) else None
        )
        near = 2e-2 if result.dtype in HALF_PRECISION else 1e-3
        sums = [result.mean * length for length in ([chosen] if chosen is not None else lengths)]
        if result.size and all(abs(total - 1.0) > near for total in sums):
            reason = (
                f"the rows of {call.function} add up to {sums[0]:.4g} on average, not to 1: they are no distributions"
            )
            yield view.finding("softmax_rows", call, reason, certainty="certain")
            return


def exploding(run: RunFacts) -> Iterator[Finding]:
    """Yield stacks of equal layers over whose depth the size of the activations explodes."""
    for facts in run.every():
        stacks: dict[tuple[str, str], list[tuple[ModuleCall, float]]] = defaultdict(list)
        for call in trained_calls(facts):
            result, template = call.returned, pattern_of(call.path)
            if template.count(NUMBER) != 1 or not template.endswith(NUMBER):
                continue
            if result is not None and result.is_float and result.size and isfinite(result.norm):
                stacks[template, call.kind].append((call, result.norm / sqrt(result.size)))
        for layers in stacks.values():
            yield from _explosion(facts, layers)


def _explosion(facts: StepFacts, layers: list[tuple[ModuleCall, float]]) -> Iterator[Finding]:
    sizes = [size for _, size in layers]
    if len(layers) < _FEWEST_LAYERS or sizes[0] <= 0.0:
        return
    growth = sizes[-1] / sizes[0]
    if growth < _GROWTH_HINT or any(later < earlier for earlier, later in pairwise(sizes)):
        return
    number = next((at for at in range(1, len(sizes)) if sizes[at] > 3.0 * sizes[at - 1]), len(sizes) - 1)
    call, size = layers[number]
    reason = (
        f"the activations of {len(layers)} layers {call.kind} grow {growth:.3g} times over their depth, at {call.path} "
        f"from {sizes[number - 1]:.3g} to {size:.3g} (root mean square)"
    )
    certainty: Certainty = "likely" if growth > _GROWTH else "possible"
    yield Finding(
        "norms_explode", reason, certainty, facts.step, facts.rank, call.path, call=call.name, place=call.place
    )


RULES = (
    Rule(
        "non_finite",
        "values",
        "All values are finite, but for those that a program writes on purpose.",
        (CALLS,),
        "certain",
        "The call is the first one with such a value; msprobe overflow_check orders it over all ranks.",
        of_step=non_finite,
        first_only=True,
    ),
    Rule(
        "dead_activation",
        "values",
        "An activation does not return its limits for all elements of a layer.",
        (CALLS,),
        "likely",
        "Look at the initialisation, the learning rate and the scale of the inputs.",
        of_step=dead_layers,
    ),
    Rule(
        "softmax_rows",
        "values",
        "The rows of a softmax add up to 1.",
        (CALLS,),
        "certain",
        "Look at the axis and at what is done to its result.",
        of_step=distributions,
    ),
    Rule(
        "norms_explode",
        "values",
        "The activations of equal layers stay of one order over their depth.",
        (MODULES,),
        "likely",
        "Look at normalisation, residual scale and initialisation.",
        of_run=exploding,
    ),
)
