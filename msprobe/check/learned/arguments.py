"""Which arguments of functions are settings of the program: the same in each call, whatever data and sizes are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from msprobe.check.facts.calls import Call
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import as_float

_POSITIONS: Mapping[str, Mapping[int, str]] = {
    "dropout": {1: "p", 2: "training"},
    "dropout1d": {1: "p", 2: "training"},
    "dropout2d": {1: "p", 2: "training"},
    "dropout3d": {1: "p", 2: "training"},
    "alpha_dropout": {1: "p", 2: "training"},
    "feature_dropout": {1: "p", 2: "training"},
    "layer_norm": {4: "eps"},
    "rms_norm": {3: "eps"},
    "group_norm": {1: "num_groups", 4: "eps"},
    "batch_norm": {5: "training", 6: "momentum", 7: "eps"},
    "instance_norm": {5: "use_input_stats", 6: "momentum", 7: "eps"},
    "scaled_dot_product_attention": {4: "dropout_p", 5: "is_causal"},
    "softmax": {1: "dim"},
    "log_softmax": {1: "dim"},
    "leaky_relu": {1: "negative_slope"},
    "elu": {1: "alpha"},
    "gelu": {1: "approximate"},
    "normalize": {1: "p", 2: "dim", 3: "eps"},
}
"""By function: the positional arguments that are settings
(https://docs.pytorch.org/docs/stable/nn.functional.html)."""
_DEFAULTS: Mapping[str, Mapping[str, str | bool | float]] = {
    "dropout": {"p": 0.5, "training": True},
    "layer_norm": {"eps": 1e-5},
    "scaled_dot_product_attention": {"dropout_p": 0.0, "is_causal": False},
}
"""What a setting is that a call leaves out."""
_NAMES = frozenset({
    *("p", "dropout_p", "training", "eps", "momentum", "is_causal", "causal", "dim", "approximate", "reduction"),
    *("ignore_index", "label_smoothing", "negative_slope", "beta", "margin", "num_groups", "use_input_stats"),
    *("align_corners", "padding_mode", "mode", "enable_gqa", "keepdim"),
})
_FACTORS: Mapping[str, bool] = {
    "__mul__": False, "__rmul__": False, "__imul__": False, "mul": False, "mul_": False, "multiply": False,
    "__truediv__": True, "__itruediv__": True, "div": True, "div_": True, "divide": True, "true_divide": True,
}  # fmt: skip
"""Whether a function divides by its factor."""
_PRODUCTS = frozenset({"matmul", "__matmul__", "bmm", "baddbmm"})


def settings(call: Call) -> dict[str, str | bool | float]:
    """Return the settings among the arguments of a call by name."""
    found = dict(_DEFAULTS.get(call.function, ()))
    found.update(_given(call))
    if call.function == "scaled_dot_product_attention":
        query, mask = call.tensor(0, "query"), call.argument(3, "attn_mask")
        if mask is not None or query is None or len(query.shape) < 2 or query.shape[-2] < 2:
            found.pop("is_causal", None)  # a mask of the data says the same, and one token needs none
    return found


def _given(call: Call) -> Iterator[tuple[str, str | bool | float]]:
    body = call.body
    positions = _POSITIONS.get(call.function)
    positional = body.get("input_args") if positions is not None else None
    if positions is not None and isinstance(positional, list):
        for position, name in positions.items():
            yield from _named(name, positional[position]) if position < len(positional) else ()
    keywords = body.get("input_kwargs")
    if keywords and isinstance(keywords, dict):
        for name, node in keywords.items():
            if name in _NAMES:
                yield from _named(name, node)
    if call.function == "scaled_dot_product_attention":
        yield from _attention_scale(call)


def _named(name: str, node: Any) -> Iterator[tuple[str, str | bool | float]]:
    value = node.get("value") if isinstance(node, dict) and not is_tensor(node) else None
    if isinstance(value, bool | str):
        yield name, value
    elif isinstance(value, int | float) and value == value:
        yield name, as_float(value)


def _attention_scale(call: Call) -> Iterator[tuple[str, float]]:
    """Yield the scale times the root of the head's size, which is 1 whatever the size, if it is given."""
    scale, query = call.argument(7, "scale"), call.tensor(0, "query")
    if query is None or not query.shape:
        return
    given = as_float(scale) if isinstance(scale, int | float) else query.shape[-1] ** -0.5
    yield "scale x root of the head's size", _digits(given * math.sqrt(query.shape[-1]))


def factor(call: Call) -> float | None:
    """Return the number that a call multiplies a tensor by; None for other calls."""
    divides = _FACTORS.get(call.function)
    if divides is None or len(call.given) != 1:
        return None
    arguments = call.body.get("input_args")
    for node in arguments if isinstance(arguments, list) else ():
        value = node.get("value") if isinstance(node, dict) and not is_tensor(node) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value and value == value:
            return 1.0 / as_float(value) if divides else as_float(value)
    return None


def inner_size(call: Call) -> int | None:
    """Return over how many numbers a product of matrices sums; None for other calls."""
    if call.function not in _PRODUCTS or len(call.given) < 2:
        return None
    shape = call.given[-2 if call.function != "baddbmm" else 1].raw.get("shape")
    return shape[-1] if isinstance(shape, list) and shape and isinstance(shape[-1], int) else None


def scale(value: float, size: int) -> float:
    """Return a factor after a product times the root of the size of the sum."""
    return _digits(value * math.sqrt(size))


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
