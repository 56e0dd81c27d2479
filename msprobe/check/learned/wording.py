"""Relations and their violations in words: what held, how often, what is now, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping

from msprobe.check.learned.table import BELOW, EQUALS, HOLDS, INCLUDES, ORDERED, WITHIN, Subject, Value

_REMEDIES: Mapping[str, str] = {
    "mode": "look for a call of train() or eval() that is missing or too many before it",
    "functions": "look at what the forward of this module leaves out",
    "modules": "look at what the forward of this module calls, and in which order",
    "collectives": "look for a reduction that is skipped, or a wrapper that lost its hooks",
    "calls": "look at the training loop around the step",
    "number of scheduler steps for each step of an optimizer": "look for a second scheduler.step(), or a missing one",
    "all data have the same number of rows": "look at how the data are put together into a batch",
    "begins a step with the values that the step before left": "look for what initialises, loads or copies weights "
    "between two steps",
    "class": "look at how the optimizer is made",
    "learning rate": "look at the learning rate and its schedule",
    "requires_grad": "look for requires_grad_(False) or a freeze",
    "held by an optimizer": "look at which parameters the optimizer was given, and whether they were replaced later",
    "gets a gradient": "look for detach, no_grad or a branch between it and the loss",
    "changes in a step of the optimizer": "look at what the optimizer does with this parameter",
    "keeps its values": "look at who changes a parameter that needs no gradient",
    "equal on all ranks": "look at which ranks reduce its gradient",
    "gradient equal on all ranks": "look at which ranks reduce this gradient",
    "as many rows as the input": "look at how shapes of the input changed",
    "dtype of input and result": "look for automatic casts that do not reach this module, or a cast of its own",
    "rows sum to 1": "look at the dimension and the mask of the softmax",
}
"""What to look at, by what the relation is about."""


def remedy_of(what: str) -> str:
    """Return what to look at."""
    if what in _REMEDIES:
        return _REMEDIES[what]
    if what.startswith("data that"):
        return "look at the data loader, its sampler, and the seeds of both on each rank and worker"
    if what.startswith("is one with"):
        return "tie the weights again after loading, moving or replacing one of them"
    if what.startswith("dtype of"):
        return _REMEDIES["dtype of input and result"]
    if what.startswith(("size of", "value of")):
        return "look at the initialisation, the scale of the inputs and the loss"
    if "scale x root" in what:
        return "look at the scale of the attention scores"
    return "look at where this setting comes from"


def subject_of(owner: str, path: str) -> str:
    """Return what a relation is about in words."""
    if not owner:
        return "code outside of modules"
    if not path:
        return owner if owner == "training step" or owner.startswith("optimizer") else f"the outermost {owner}"
    return f"{path}" if owner == "parameter" else f"{owner} at {path}"


def statement(subject: Subject, value: Value | None, low: float | None, high: float | None) -> str:
    """Return a relation as a sentence."""
    who, what = subject_of(subject.owner, subject.path), subject.what
    condition = f" ({subject.when})" if subject.when else ""
    if subject.rule == HOLDS:
        return f"{who}{condition}: {what}"
    if subject.rule == INCLUDES:
        return f"{who}{condition}: the {what} include {_names(value)}"
    if subject.rule == ORDERED:
        return f"{who}{condition}: the {what} come in the order {_names(value)}"
    if subject.rule == WITHIN:
        return f"{who}{condition}: the {what} lies between {low:.3g} and {high:.3g}"
    if subject.rule == BELOW:
        return f"{who}{condition}: the {what} is at most {high:.3g}"
    return f"{who}{condition}: the {what} is {shown(value)}"


def now(rule: str, what: str, learned: Value | None, value: Value) -> str:
    """Return in words what is seen instead."""
    if rule == HOLDS:
        return "this does not hold"
    if rule == INCLUDES:
        missing = [name for name in _tuple(learned) if name not in _tuple(value)]
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    if rule == ORDERED:
        kept = [name for name in _tuple(value) if name in _tuple(learned)]
        return f"the order is {', '.join(kept)}"
    if rule in (WITHIN, BELOW):
        assert isinstance(value, float)
        return "it is no finite number" if value in (float("inf"), float("-inf")) else f"it is {2.0**value:.3g}"
    assert rule == EQUALS
    return f"it is {shown(value)}"


def shown(value: Value | None) -> str:
    """Return a value as text."""
    return f"{value:g}" if isinstance(value, float) and not isinstance(value, bool) else str(value)


def _tuple(value: Value | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _names(value: Value | None) -> str:
    return ", ".join(_tuple(value))
