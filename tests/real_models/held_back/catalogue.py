"""All held-back cases: families, faults and changes that nobody looked at while msprobe was made better.

``COMBINED`` are faults together with a harmless change, which must neither alarm nor hide them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.faults.combined import combined
from tests.real_models.held_back.benign import BENIGN, MODELS
from tests.real_models.held_back.training_changes import TRAINING
from tests.real_models.held_back.variants import FAULTS, SINGLE


def _both(fault: str, change: str) -> Case:
    """Return a fault of a family together with a change of its model or its training."""
    changes = MODELS.get(fault.partition("/")[0], {})
    return combined(SINGLE[fault], change, *(changes[change] if change in changes else TRAINING[change]))


def _wrapped(fault: str) -> Case:
    """Return a fault in a model with a wrapper around it: its modules are named as the wrapped side has them."""
    case = _both(fault, "wrapped-model")
    return replace(case, modules=tuple(f"module.{name}" for name in case.modules))


COMBINED = [
    _both("qwen3_moe/normalised-over-tokens", "out-of-place-sum"),
    _both("qwen3_moe/rotation-interleaved", "own-clip"),
    _both("gemma2/cap-value", "norm-distributed"),
    _both("gemma2/norm-weight", "einsum-scores"),
    _both("deepseek_v3/rope-part-first", "concatenated-keys"),
    _both("deepseek_v3/softmax-for-sigmoid", "shared-expert-before-routing"),
    combined(SINGLE["whisper/states-normalised-twice"], "sdpa", attention="sdpa"),
    combined(SINGLE["clip/logit-scale"], "sdpa", attention="sdpa"),
    _both("clip/norm-eps", "text-tower-first"),
    _both("clip/token-after-end", "mlp-inlined"),
    combined(SINGLE["swin/shift-sign"], "sdpa", attention="sdpa"),
    _both("swin/wrong-residual", "roll-by-slices"),
    _both("convnext/height-and-width-swapped", "pointwise-convolutions"),
    _both("distilbert/divergence-reversed", "chunked-feed-forward"),
    _both("opt/position-offset", "own-clip"),
    _both("opt/norm-after", "checkpointing"),
    _both("bloom/scale", "torch-gelu"),
    _both("dit/wrong-gate", "modulated-by-addcmul"),
    _wrapped("dit/time-scale"),
    _both("gnn/normalised-by-source", "scatter-for-index"),
    _both("vae/deviation", "own-cross-entropy"),
    _both("policy/entropy-sign", "own-log-softmax"),
    _both("lora/scaling", "mask-added"),
    _both("lora/scale", "forward-hooks"),
    _both("recipe/norms-decayed", "fused"),
    _both("recipe/loss-beta", "average-by-lerp"),
    _both("gan/learning-rate", "foreach"),
    _both("gan/slope", "fused"),
]


def _held(cases: Iterable[Case]) -> list[Case]:
    return [replace(case, name=f"held-{case.name}") for case in cases]


HELD_BACK = _held([*BENIGN, *FAULTS, *COMBINED, *(case.reversed() for case in (*FAULTS, *COMBINED))])
"""Harmless changes, faults, and the faults in the run that is thought to be right."""
