"""The planted faults: what is wrong, where, and which module a good tool names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.zoo import changes
from tests.zoo import wrong_code as wrong
from tests.zoo.model import Training


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Args:
        kind: what sort of mistake it is.
        apply: puts it into a healthy training.
        modules: path and class of the truly faulty module. More than one only where either answer is right: a call that
            is missing or in the wrong order is the caller's mistake and shows at the called module.
        api: for faults outside of every module, the API that is given the wrong thing.
        golden: the healthy run to compare with.
    """

    kind: str
    apply: Callable[[Training], None]
    modules: tuple[str, ...] = ()
    api: str | None = None
    golden: str = "adamw"


GOLDEN: dict[str, Callable[[Training], None]] = {"adamw": lambda training: None, "sgd": changes.with_sgd}

_A0, _A1 = "blocks.0.attention.Attention", "blocks.1.attention.Attention"
_M0, _M1 = "blocks.0.mlp.MLP", "blocks.1.mlp.MLP"
_B0, _B1 = "blocks.0.Block", "blocks.1.Block"
_R1 = "blocks.1.attention.rotary.Rotary"

FAULTS: dict[str, Fault] = {
    "layernorm-eps": Fault(
        "wrong constant", changes.attribute("blocks.1.mlp_norm", "eps", 1e-3), ("blocks.1.mlp_norm.LayerNorm",)
    ),
    "rmsnorm-eps": Fault(
        "wrong constant",
        changes.attribute("blocks.0.attention_norm", "eps", 1e-4),
        ("blocks.0.attention_norm.RMSNorm",),
    ),
    "rope-base": Fault("wrong constant", changes.rotary_base, (_R1,)),
    "scale-off-by-permille": Fault(
        "wrong constant", changes.method("blocks.1.attention", "scores", wrong.scores_tensor_scale), (_A1,)
    ),
    "softmax-axis": Fault("wrong constant", changes.attribute("blocks.0.attention", "softmax_dim", -2), (_A0,)),
    "mask-off-by-one": Fault("causal mask", changes.attribute("blocks.0.attention", "first_hidden", 2), (_A0,)),
    "mask-missing": Fault(
        "causal mask", changes.method("blocks.1.attention", "mask", lambda self, scores: scores), (_A1,)
    ),
    "scale-one": Fault("missing attention scale", changes.attribute("blocks.0.attention", "scale", 1.0), (_A0,)),
    "scale-missing": Fault(
        "missing attention scale", changes.method("blocks.1.attention", "scores", wrong.scores_unscaled), (_A1,)
    ),
    "bf16-round-trip": Fault("precision cast", changes.method("blocks.0.mlp", "activate", wrong.activate_bf16), (_M0,)),
    "fp16-scores": Fault("precision cast", changes.method("blocks.1.attention", "scores", wrong.scores_half), (_A1,)),
    "transposed-weight": Fault(
        "transposed weight",
        changes.weight("blocks.1.attention.out", wrong.transpose),
        ("blocks.1.attention.out.Linear",),
    ),
    "one-weight-element": Fault(
        "wrong weight element", changes.weight("blocks.0.mlp.down", wrong.one_element), ("blocks.0.mlp.down.Linear",)
    ),
    "wrong-bias": Fault(
        "wrong bias", changes.weight("blocks.1.mlp.up", wrong.first_bias, "bias"), ("blocks.1.mlp.up.Linear",)
    ),
    "embedding-rows-swapped": Fault(
        "embedding row swapped", changes.weight("embed.tokens", wrong.swap_rows), ("embed.tokens.Embedding",)
    ),
    "weight-corrupted-later": Fault(
        "wrong weight element", changes.training(meddle=changes.corrupt_later), ("blocks.1.mlp.down.Linear",)
    ),
    "wrong-backward": Fault(
        "wrong backward",
        changes.attribute("blocks.0.mlp.swish", "function", wrong.NoProduct),
        ("blocks.0.mlp.swish.Swish",),
    ),
    "doubled-backward": Fault(
        "wrong backward", changes.method("blocks.1.attention", "turn", wrong.turn_doubled), (_A1,)
    ),
    "detached-key": Fault("detached branch", changes.method("blocks.0.attention", "turn", wrong.turn_detached), (_A0,)),
    "detached-mlp": Fault("detached branch", changes.method("blocks.1", "think", wrong.think_detached), (_B1,)),
    "gradient-hook": Fault("gradient hook", changes.method("blocks.0", "attend", wrong.attend_hooked), (_B0,)),
    "parameter-hook": Fault(
        "gradient hook", changes.hook_parameter("blocks.1.mlp.down"), ("blocks.1.mlp.down.Linear",)
    ),
    "learning-rate": Fault("learning rate", changes.settings(lr=1.1e-2), ("optimizer",)),
    "weight-decay": Fault("weight decay", changes.settings(weight_decay=0.0), ("optimizer",)),
    "betas": Fault("momentum or betas", changes.settings(betas=(0.9, 0.99)), ("optimizer",)),
    "momentum": Fault("momentum or betas", changes.momentum, ("optimizer",), golden="sgd"),
    "clip-norm": Fault("gradient clipping", changes.training(clip=0.4), ("clip_grad",)),
    "dropout-on": Fault("dropout", changes.attribute("blocks.0.drop", "p", 0.1), ("blocks.0.drop.Dropout",)),
    "nan-forward": Fault("NaN", changes.attribute("blocks.1.attention", "first_hidden", 0), (_A1,)),
    "nan-backward": Fault(
        "NaN", changes.attribute("blocks.1.mlp.swish", "function", wrong.NanGradient), ("blocks.1.mlp.swish.Swish",)
    ),
    "overflow": Fault("overflow in fp16", changes.method("blocks.0.mlp", "squeeze", wrong.squeeze_overflowing), (_M0,)),
    "half-scale": Fault("overflow in fp16", changes.attribute("blocks.1.mlp", "half_scale", 2.0**20), (_M1,)),
    "label-shift": Fault("index shift", changes.training(label_shift=2), api="Functional.cross_entropy"),
    "position-shift": Fault("index shift", changes.attribute("embed", "first", 1), ("embed.Embed",)),
    "rolled-residual": Fault("index shift", changes.method("blocks.1", "attend", wrong.attend_shifted), (_B1,)),
    "merge-without-transpose": Fault(
        "bad reshape", changes.method("blocks.0.attention", "merge", wrong.merge_view), (_A0,)
    ),
    "merge-transposed-twice": Fault(
        "bad reshape", changes.method("blocks.1.attention", "merge", wrong.merge_twisted), (_A1,)
    ),
    "heads-and-channels-mixed": Fault(
        "bad reshape", changes.method("blocks.0.attention", "split", wrong.split_twisted), (_A0,)
    ),
    "residual-dropped": Fault(
        "residual dropped", changes.method("blocks.1", "think", wrong.think_without_residual), (_B1,)
    ),
    "residual-after-norm": Fault(
        "residual dropped", changes.method("blocks.0", "think", wrong.think_wrong_residual), (_B0,)
    ),
    "gelu-tanh": Fault("wrong activation", changes.attribute("blocks.0.mlp", "approximate", "tanh"), (_M0,)),
    "relu-for-gelu": Fault("wrong activation", changes.method("blocks.1.mlp", "activate", wrong.activate_relu), (_M1,)),
    "blocks-swapped": Fault("layer order", changes.swap_blocks, ("blocks.0.attention.query.Linear",)),
    "blocks-run-backwards": Fault(
        "layer order",
        changes.method("", "pile", lambda self: [self.blocks[1], self.blocks[0]]),
        (_B0, _B1),
    ),
    "frozen-weight": Fault("frozen parameter", changes.freeze("blocks.0.mlp.up"), ("blocks.0.mlp.up.Linear",)),
    "extra-clamp": Fault("extra op", changes.method("blocks.1.mlp", "activate", wrong.activate_clamped), (_M1,)),
    "extra-in-place": Fault("extra op", changes.method("blocks.0", "think", wrong.think_inplace), (_B0,)),
    "mean-subtracted": Fault(
        "extra op", changes.method("norm", "forward", wrong.rms_mean_subtracted), ("norm.RMSNorm",)
    ),
    "norm-missing": Fault(
        "missing op",
        changes.method("blocks.1", "think", wrong.think_without_norm),
        (_B1, "blocks.1.mlp_norm.LayerNorm"),
    ),
    "rotary-on-query-only": Fault(
        "missing op", changes.method("blocks.1.attention", "turn", wrong.turn_query_only), (_A1, _R1)
    ),
    "rotary-sign": Fault(
        "wrong formula", changes.method("blocks.1.attention.rotary", "forward", wrong.rotate_backwards), (_R1,)
    ),
    "scaled-after-tanh": Fault("wrong formula", changes.method("blocks.0.mlp", "squeeze", wrong.squeeze_late), (_M0,)),
    "loss-sum": Fault("loss reduction", changes.training(reduction="sum"), api="Functional.cross_entropy"),
    "embedding-scaled": Fault("extra op", changes.method("", "forward", wrong.forward_scaled), api="Tensor.__mul__"),
}


def names(fault: Fault, module: str | None, entry: str) -> bool:
    """Whether an answer names the fault: exactly its module, or, outside of all modules, none and the API."""
    return module in fault.modules if fault.modules else module is None and fault.api is not None and fault.api in entry
