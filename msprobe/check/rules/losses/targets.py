"""What losses compare: scores, no probabilities, with targets of their shape that the model has not been given."""

from __future__ import annotations

from collections.abc import Iterator

from msprobe.check.facts.calls import Call
from msprobe.check.facts.read_step import StepView
from msprobe.check.facts.step_facts import HALF_PRECISION, Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import CALLS
from msprobe.check.rule import Rule
from msprobe.check.rules.attention import is_causal
from msprobe.core.store.record_walk import Leaf
from msprobe.trace.values import mark

ELEMENTWISE = frozenset({
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"),
    *("binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "soft_margin_loss"),
})
"""Losses that compare each number with one number of the target."""
_ARITHMETIC = frozenset({
    *("__sub__", "__rsub__", "__add__", "__radd__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("sub", "add", "mul", "div", "maximum", "minimum"),
})
_CLASS_AXIS = {"cross_entropy": 1, "nll_loss": 1, "kl_div": -1}
"""Losses of scores or of logarithms of probabilities, and the axis of the classes."""
_TAKES = {
    "cross_entropy": "scores, of which it takes the softmax itself",
    "binary_cross_entropy_with_logits": "scores, of which it takes the sigmoid itself",
    "nll_loss": "logarithms of probabilities",
    "kl_div": "logarithms of probabilities",
}
_OF_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_OF_SAMPLES = ELEMENTWISE | _OF_CLASSES
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_SUM_OF_ONE = 1e-5
"""How far the sums of probabilities are from 1 on average, as rounding makes them."""


def _losses(view: StepView, functions: frozenset[str]) -> Iterator[tuple[Call, Leaf]]:
    """Yield the calls of these losses that train something, and their first tensor."""
    for call in view.calls:
        if call.phase == "forward" and not call.is_module and call.function in functions and call.given:
            leaf = call.given[0]
            if leaf.raw.get("requires_grad") is True:
                yield call, leaf


def broadcast(view: StepView) -> Iterator[Finding]:
    """Yield losses that compare tensors of different shapes."""
    told: set[str] = set()
    for call in view.calls:
        if call.phase != "forward" or call.is_module or call.function not in ELEMENTWISE:
            continue
        own, target = call.tensor(0, "input"), call.tensor(1, "target")
        if own is None or target is None or own.shape == target.shape or min(own.size, target.size) < 2:
            continue
        if call.function in told:
            continue
        told.add(call.function)
        repeated = _is_repeated(own.shape, target.shape)
        effect = (
            "one of them is used again for each part of the other one"
            if repeated
            else "they are broadcast, so each prediction is compared with the targets of others"
        )
        reason = f"{call.function} gets shape {list(own.shape)} and a target of shape {list(target.shape)}: {effect}"
        certainty: Certainty = "possible" if repeated or len(own.shape) == len(target.shape) else "certain"
        yield view.finding("loss_shapes_differ", call, reason, certainty=certainty)
    yield from _crossed(view)


def _is_repeated(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether one of two tensors of equal numbers of axes is repeated along axes of length 1, as programs write
    it on purpose, and the other one is not."""
    lengths = list(zip(one, other, strict=False))
    fits = all(left == right or left == 1 for left, right in lengths)
    return len(one) == len(other) and (fits or all(left == right or right == 1 for left, right in lengths))


def _crossed(view: StepView) -> Iterator[Finding]:
    """Yield arithmetic between a column that a module returns and a row of as many numbers, whose square of all pairs
    goes into a mean or a sum."""
    columns: set[int] = set()
    for call in view.calls:
        if call.phase != "forward":
            continue
        if call.is_module:
            columns.update(
                one for one, leaf in zip(call.returned_marks, call.returned, strict=True) if _is_column(leaf)
            )
        elif call.function in _ARITHMETIC and len(call.given) == 2 and columns:
            shapes = _crossing(call, columns)
            if shapes is not None and _is_averaged(view, call):
                reason = (
                    f"{call.function} combines shape {shapes[0]} with shape {shapes[1]}, which gives all pairs of "
                    "samples, and these go into a mean or a sum: each prediction is compared with the targets of others"
                )
                yield view.finding("loss_shapes_differ", call, reason, certainty="likely")
                return


def _is_column(leaf: Leaf) -> bool:
    shape = leaf.raw["shape"]
    return leaf.raw.get("requires_grad") is True and len(shape) == 2 and shape[1] == 1 < shape[0]


def _crossing(call: Call, columns: set[int]) -> tuple[list[int], list[int]] | None:
    """Return the shapes that a call combines, if they are those of a result of a module and of data."""
    ours = [own in columns and _is_column(leaf) for own, leaf in zip(call.given_marks, call.given, strict=True)]
    if sum(ours) != 1 or call.result is None:
        return None
    other = ours.index(False)
    row, column = call.given[other].raw, call.given[1 - other].raw
    count = column["shape"][0]
    is_data = row.get("requires_grad") is not True and call.given_marks[other] not in columns
    if not is_data or row["shape"] != [count] or call.result.shape != (count, count):
        return None
    return call.given[0].raw["shape"], call.given[1].raw["shape"]


def _is_averaged(view: StepView, made: Call) -> bool:
    """Return whether a result, or what functions make of it number by number, becomes a single number."""
    followed = set(made.returned_marks)
    shape = made.returned[0].raw["shape"]
    for call in view.calls:
        if call.place <= made.place or call.phase != "forward" or call.is_module or not call.returned:
            continue
        if not followed.isdisjoint(call.given_marks):
            result = call.returned[0].raw
            if tensor_of(result).size == 1:
                return True
            followed.update(call.returned_marks if result["shape"] == shape else ())
    return False


def of_probabilities(view: StepView) -> Iterator[Finding]:
    """Yield losses that get probabilities where they take scores or logarithms."""
    softmax: set[int] = set()
    sigmoid: set[int] = set()
    wanted = {call.place: leaf for call, leaf in _losses(view, frozenset(_TAKES))}
    for call in view.calls if wanted else ():
        if call.phase == "forward" and call.function.lower() in {"softmax", "softmax2d", "sparsemax"}:
            softmax.update(call.returned_marks)
        elif call.phase == "forward" and call.function.lower() == "sigmoid":
            sigmoid.update(call.returned_marks)
        leaf = wanted.get(call.place)
        if leaf is None:
            continue
        binary = call.function == "binary_cross_entropy_with_logits"
        if mark(leaf.raw) in sigmoid if binary else _are_probabilities(call, leaf, softmax):
            reason = (
                f"{call.function} takes {_TAKES[call.function]}, and gets probabilities: its gradients are too small, "
                "and it stays far from its smallest value however good the model is"
            )
            yield view.finding("loss_of_probabilities", call, reason, certainty="likely")
            return


def _are_probabilities(call: Call, leaf: Leaf, softmax: set[int]) -> bool:
    """Return whether numbers lie between 0 and 1 and add up to 1 over the classes."""
    given = tensor_of(leaf.raw)
    axis = _CLASS_AXIS[call.function] if len(given.shape) > 1 else 0
    classes = given.shape[axis] if given.shape else 0
    if classes < 2 or not 0.0 <= given.smallest < given.largest <= 1.0:
        return False
    if given.dtype in HALF_PRECISION:
        return mark(leaf.raw) in softmax
    return abs(given.mean * classes - 1.0) < _SUM_OF_ONE


def of_inputs(view: StepView) -> Iterator[Finding]:
    """Yield losses of classes whose targets are the tokens that a causal model is given, each at its own place."""
    wanted = {call.place for call, _ in _losses(view, _OF_CLASSES)}
    tokens: list[Tensor] = []
    causal = False
    for call in view.calls if wanted else ():
        if call.phase != "forward":
            continue
        if call.function in {"embedding", "Embedding"}:
            tokens.extend(_tokens(call))
        causal = causal or (not call.is_module and is_causal(call))
        target = call.tensor(1, "target") if call.place in wanted else None
        if target is None or not causal or target.is_constant or target.order != target.order:
            continue
        read = [one for one in tokens if one.size == target.size]
        if read and all(_same_numbers(one, target) for one in read):
            reason = (
                f"the targets of {call.function} are the tokens that the model is given, each at its own place, and "
                "its attention hides later places: it learns to repeat each token instead of telling the next one"
            )
            yield view.finding("target_is_input", call, reason, certainty="likely")
            return


def _tokens(call: Call) -> Iterator[Tensor]:
    """Yield the numbers that a lookup in a table gets, unless they are all equal or count up, as positions do."""
    for leaf in call.given:
        given = tensor_of(leaf.raw)
        if "int" not in given.dtype or given.is_constant or not given.shape:
            continue
        if given.largest - given.smallest != given.shape[-1] - 1 or given.smallest != 0.0:
            yield given


def _same_numbers(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same numbers in the same order, whatever their shapes."""
    return one[2:] == other[2:]


def batch_axes(view: StepView) -> Iterator[Finding]:
    """Yield recurrent layers that take for the steps of a sequence what a loss takes for the samples."""
    layers = [(call, sizes) for call in view.calls if (sizes := _recurrent_sizes(call)) is not None]
    targets = {target.shape for call, _ in _losses(view, _OF_SAMPLES) if (target := call.tensor(1, "target"))}
    for call, (length, batch) in layers if targets else ():
        if targets <= {(length,), (length, 1)} and length != batch:
            reason = (
                f"{call.function} takes {length} for the steps of a sequence and {batch} for the samples, and the loss "
                f"has {length} targets, one for each sample: the first axis is meant to be that of the samples"
            )
            yield view.finding("batch_axis_differs", call, reason, certainty="likely")
            return


def _recurrent_sizes(call: Call) -> tuple[int, int] | None:
    """Return the number of steps and of samples of a recurrent layer that has the steps on its first axis."""
    trains = call.is_module and call.phase == "forward" and call.body.get("autograd") in {None, "grad"}
    if not trains or call.function not in _RECURRENT or not call.given or len(call.returned) < 2:
        return None
    given, state = tensor_of(call.given[0].raw), tensor_of(call.returned[1].raw)
    if len(given.shape) != 3 or len(state.shape) != 3:
        return None
    length, batch = given.shape[:2]
    return (length, batch) if state.shape[1] == batch and min(length, batch) > 1 else None


RULES = (
    Rule(
        "loss_shapes_differ",
        "losses",
        "A loss compares tensors of one shape.",
        (CALLS,),
        "certain",
        "Give both the same shape, as with squeeze(-1).",
        of_step=broadcast,
    ),
    Rule(
        "loss_of_probabilities",
        "losses",
        "A loss that takes scores or logarithms of probabilities gets no probabilities.",
        (CALLS,),
        "likely",
        "Give the scores to the loss as the last layer returns them, without softmax or sigmoid; take log_softmax for "
        "nll_loss and kl_div.",
        of_step=of_probabilities,
    ),
    Rule(
        "target_is_input",
        "losses",
        "A causal language model is trained to tell the next token, not the one that it is given.",
        (CALLS,),
        "likely",
        "Shift the targets: logits[:, :-1] against tokens[:, 1:].",
        of_step=of_inputs,
    ),
    Rule(
        "batch_axis_differs",
        "losses",
        "A recurrent layer and the loss take the same axis for that of the samples.",
        (CALLS,),
        "likely",
        "Give batch_first=True to the layer, or the time first to its input.",
        of_step=batch_axes,
    ),
)
