"""Examples that the parameters of a step give: whether they need and get gradients, move, and are one tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msprobe.check.facts.patterns import pattern_of
from msprobe.check.facts.roles import EXPERT
from msprobe.check.facts.run_facts import gradient_of
from msprobe.check.facts.step_facts import Parameter, StepFacts, Tensor
from msprobe.check.learned.table import BELOW, EQUALS, HOLDS, WITHIN, SeenTable, Value, size_step

PARAMETER = "parameter"
_SPREAD = 0.58
"""Root of the mean square of the weights of the projection (``core/tensors/projection.py``)."""
_TRAINED = "requires a gradient"
_WIDE = frozenset({"float32", "float64"})
_SMALL = 1e-3
"""Share of the largest one below which a gradient or update counts as that small: rounding brings any such size."""
_CONTAINED = frozenset({"gets a gradient", "changes in a step of the optimizer"})


def see_parameter(table: SeenTable, name: str, what: str, rule: str, value: Value, *, when: str = "") -> None:
    """Add an example that is about a parameter; ``name`` is its name in the model."""
    kind = "output" if rule in (WITHIN, BELOW) else "contained" if what in _CONTAINED else "consistent"
    table.add((kind, PARAMETER, pattern_of(name), what, when, rule), value, name=name)


def see_parameters(table: SeenTable, facts: StepFacts) -> None:
    """Add whether parameters need gradients, get them, are held by optimizers, and move, and how far."""
    gradients = {name: gradient_of(facts, name) for name in facts.parameters}
    for name, parameter in facts.parameters.items():
        value = parameter.used or parameter.left
        if value is not None:
            table.add_with_place(("consistent", PARAMETER, name, "requires_grad", "", EQUALS), parameter.requires_grad)
            size = size_step(value.root_mean_square) if table.with_sizes and value.is_measured else None
            if size is not None:
                see_parameter(table, name, "size of the values", WITHIN, size)
    _see_gradients(table, facts, gradients)
    _see_updates(table, facts, gradients)


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Return what comparing keys does, in a fraction of the time: NaN is equal to NaN."""
    return one == other or (any(value != value for value in one[2:]) and one.key == other.key)


def _working(facts: StepFacts) -> list[tuple[str, Parameter]]:
    """Return the parameters that the step uses. Those of experts are left out, as an expert may have nothing to do."""
    return [
        (name, one) for name, one in facts.parameters.items() if (one.called or one.read) and not EXPERT.search(name)
    ]


def _see_gradients(table: SeenTable, facts: StepFacts, gradients: dict[str, list[Tensor]]) -> None:
    held = {name for update in facts.updates for name in update.parameters if name}
    without = {name for update in facts.updates for name in update.no_gradient}
    if not held or any(None in update.parameters for update in facts.updates):
        return
    sizes = []
    for name, parameter in _working(facts):
        if not parameter.requires_grad:
            continue
        see_parameter(table, name, "held by an optimizer", HOLDS, name in held, when=_TRAINED)
        if facts.has_backward and name in held:
            gets = bool(gradients[name]) and name not in without
            see_parameter(table, name, "gets a gradient", HOLDS, gets, when=_TRAINED)
            sizes += [(name, one.root_mean_square) for one in gradients[name]]
    _see_sizes(table, "size of the gradient", sizes)


def _see_updates(table: SeenTable, facts: StepFacts, gradients: dict[str, list[Tensor]]) -> None:
    """Add whether and how far steps move parameters. A gradient of rounding alone moves one anywhere under Adam, and
    is left out."""
    rates: dict[str, float] = {}
    for update in facts.updates:
        rates.update(update.rate_of)
    every = (one.root_mean_square for own in gradients.values() for one in own)
    least = _SMALL * max(filter(math.isfinite, every), default=0.0)
    sizes = []
    for name, parameter in _working(facts):
        used, left, rate = parameter.used, parameter.left, rates.get(name)
        if used is None or left is None or used.shape != left.shape or not (used.is_measured and left.is_measured):
            continue
        changed = not _is_same(used, left)
        if not parameter.requires_grad:
            see_parameter(table, name, "keeps its values", HOLDS, not changed, when="without gradients")
        elif rate and used.dtype in _WIDE and any(_moves(one, used, rate) for one in gradients[name]):
            see_parameter(table, name, "changes in a step of the optimizer", HOLDS, changed, when=_TRAINED)
        moved = abs(left.order - used.order)
        if rate and changed and moved == moved and any(one.root_mean_square > least for one in gradients[name]):
            sizes.append((name, moved / (_SPREAD * math.sqrt(max(used.size, 1)) * rate)))
    _see_sizes(table, "size of the update for a learning rate of 1", sizes)


def _see_sizes(table: SeenTable, what: str, sizes: Iterable[tuple[str, float]]) -> None:
    """Add the sizes of a step; what is very small beside the largest one counts as that small."""
    if not table.with_sizes:
        return
    known = [(name, size) for name, size in sizes if size > 0 or size != size]
    largest = max((size for _, size in known if math.isfinite(size)), default=0.0)
    for name, size in known:
        value = size_step(max(size, _SMALL * largest)) if math.isfinite(size) else math.inf
        if value is not None:
            see_parameter(table, name, what, BELOW, value)


def _moves(gradient: Tensor, value: Tensor, rate: float) -> bool:
    """Return whether a gradient is more than rounding: a bias before a norm, which subtracts it again, has such."""
    return gradient.is_finite and gradient.root_mean_square > 1e-7 and gradient.norm * rate > 1e-5 * value.norm


def see_kept(table: SeenTable, before: StepFacts, facts: StepFacts) -> None:
    """Add whether parameters begin a step with the values that the step before left."""
    for name, parameter in facts.parameters.items():
        old = before.parameters.get(name)
        left = old.left if old is not None else None
        used = parameter.used
        if not parameter.requires_grad or used is None or left is None or used.shape != left.shape:
            continue
        if used.is_measured and left.is_measured and used.dtype == left.dtype:
            what = "begins a step with the values that the step before left"
            see_parameter(table, name, what, HOLDS, _is_same(used, left), when=_TRAINED)


def see_tied(table: SeenTable, facts: StepFacts) -> None:
    """Add which parameters are one tensor, and which tables and heads are not though they could be."""
    for group in facts.shared:
        first, *others = sorted(group, key=pattern_of)
        for other in others:
            _see_pair(table, (first, other), True, group[-1])
    tables = [(name, one.used or one.left) for name, one in facts.parameters.items() if "Embedding" in one.kind]
    for name, value in tables:
        for other, parameter in facts.parameters.items():
            own = parameter.used or parameter.left
            if other == name or value is None or own is None or own.shape != value.shape or own.size < 2:
                continue
            _see_pair(table, (name, other), own.key == value.key and not own.is_constant, other)


def _see_pair(table: SeenTable, pair: tuple[str, str], value: bool, name: str) -> None:
    first, second = sorted(map(pattern_of, pair))
    table.add(("consistent", PARAMETER, first, f"is one with {second}", "", HOLDS), value, name=name)
