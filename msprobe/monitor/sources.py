"""What a monitor can watch: one table. A new source is one line here, and a part of the session that reports it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Source(NamedTuple):
    """One kind of tensor that a monitor watches.

    Attributes:
        name: the first part of the names of its files (``grad_reduced``).
        meaning: what it holds, and when it is measured.
        per_micro_step: whether a tensor has a row for each micro step, with a column that counts them.
    """

    name: str
    meaning: str
    per_micro_step: bool = False


ACTIVATION: Final = Source("actv", "inputs and outputs of modules", True)
ACTIVATION_GRADIENT: Final = Source("actv_grad", "gradients of the inputs and outputs of modules", True)
GRADIENT_UNREDUCED: Final = Source("grad_unreduced", "gradients of parameters before ranks add them up")
GRADIENT_MICRO: Final = Source("grad_unreduced", "the same after each micro step", True)
GRADIENT_REDUCED: Final = Source("grad_reduced", "gradients of parameters as the optimizer gets them")
PARAMETER_BEFORE: Final = Source("param_origin", "parameters before the step of the optimizer")
PARAMETER_AFTER: Final = Source("param_updated", "parameters after it")
FIRST_MOMENT: Final = Source("exp_avg", "first moment of the optimizer before its step")
SECOND_MOMENT: Final = Source("exp_avg_sq", "second moment of the optimizer before its step")
UPDATE: Final = Source("update", "what Adam takes from a parameter, without weight decay: learning rate times ratio")
RATIO: Final = Source("ratio", "corrected first moment over the root of the corrected second one")
DIRECTION: Final = Source("other", "share of elements of a gradient with the sign of the first moment")
COMMUNICATION: Final = Source("comm", "arguments of collectives before and after the call", True)
LINEAR: Final = Source("linear_hook", "stable rank and spectral norm of a weight")
ATTENTION: Final = Source("attention_hook", "entropy and largest probability of attention", True)
ROUTER_WEIGHT: Final = Source("moe_router_weight_hook", "likeness of the rows of a router's weight")
ROUTER_LOGITS: Final = Source("moe_router_logit_hook", "entropy of the experts of a token", True)
BY_HAND: Final = Source("adhoc_check", "tensors that the program hands in (``adhoc_check``)", True)

SOURCES: Final = (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    GRADIENT_UNREDUCED,
    GRADIENT_REDUCED,
    PARAMETER_BEFORE,
    PARAMETER_AFTER,
    FIRST_MOMENT,
    SECOND_MOMENT,
    UPDATE,
    RATIO,
    DIRECTION,
    COMMUNICATION,
    LINEAR,
    ATTENTION,
    ROUTER_WEIGHT,
    ROUTER_LOGITS,
    BY_HAND,
)
"""All sources, in the order in which the documentation lists them."""

FEATURE_SOURCES: Final = {one.name: one for one in (LINEAR, ATTENTION, ROUTER_WEIGHT, ROUTER_LOGITS)}
"""The sources whose rows have features of a module in place of statistics of a tensor."""
