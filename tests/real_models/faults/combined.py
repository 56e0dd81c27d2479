"""Faults in other dtypes, and faults together with a harmless change, which must neither alarm nor hide them."""

from __future__ import annotations

from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.changes import FOREACH, FUSED, INLINED_MLP, LOGGED, MODELS, RENAMED_MLP, RESIDUAL
from tests.real_models.faults import decoders, encoders, other_models, training
from tests.real_models.runs import Edit

SINGLE: dict[str, Case] = {
    case.name.removeprefix("fault/"): case
    for case in (
        *decoders.LLAMA,
        *decoders.GPT2,
        *decoders.MIXTRAL,
        *decoders.MAMBA,
        *encoders.BERT,
        *encoders.T5,
        *encoders.VIT,
        *other_models.RESNET,
        *other_models.LSTM,
        *other_models.UNET,
        *training.TRAINING,
    )
}
"""Family and fault -> the case."""


def in_dtype(case: Case, dtype: str) -> Case:
    """Return a fault where both runs have another dtype, or run under autocast."""
    changed, healthy = case.changed.edited(dtype=dtype), case.healthy.edited(dtype=dtype)
    return replace(case, name=f"{case.name}-{dtype}", changed=changed, healthy=healthy)


def combined(case: Case, change: str, *edits: Edit, **arguments: str) -> Case:
    """Return a fault together with a harmless change."""
    name = f"{case.name.replace('fault/', 'combined/')}+{change}"
    return replace(case, name=name, changed=case.changed.edited(*edits, **arguments))


OTHER_DTYPES = [
    in_dtype(SINGLE[name], dtype)
    for dtype, names in {
        "bf16": (
            "llama/scale",
            "llama/mask-missing",
            "llama/learning-rate",
            "llama/residual-missing",
            "gpt2/dropout-off",
            "t5/norm-summed",
            "vit/class-token-last",
            "mixtral/router-axis",
            "mamba/skip-missing",
            "unet/scale",
        ),
        "fp16": ("gpt2/scale", "resnet/norm-eps", "unet/skip-first", "lstm/gates-swapped", "bert/temperature"),
        "autocast": (
            "llama/transposed-weight",
            "bert/mask-cancelled",
            "lstm/softmax-axis",
            "vit/patches-transposed",
            "llama/scaled-gradient",
        ),
    }.items()
    for name in names
]
COMBINED = [
    combined(SINGLE["llama/mask-rolled"], "sdpa", attention="sdpa"),
    combined(SINGLE["llama/norm-eps"], "sdpa", attention="sdpa"),
    combined(SINGLE["llama/one-weight"], "residual-swapped", RESIDUAL),
    combined(SINGLE["llama/norm-eps"], "renamed-mlp", *RENAMED_MLP),
    combined(SINGLE["llama/transposed-weight"], "inlined-mlp", INLINED_MLP),
    combined(SINGLE["llama/learning-rate"], "foreach", FOREACH),
    combined(SINGLE["llama/learning-rate"], "sdpa", attention="sdpa"),
    combined(SINGLE["bert/betas"], "fused", FUSED),
    combined(SINGLE["vit/weight-decay"], "foreach", FOREACH),
    combined(SINGLE["vit/class-token-last"], "sdpa", attention="sdpa"),
    combined(SINGLE["gpt2/bias"], "sdpa", attention="sdpa"),
    combined(SINGLE["gpt2/clip-norm"], "fused", FUSED),
    combined(SINGLE["gpt2/activation"], "logged-norms", LOGGED),
    combined(SINGLE["resnet/norm-eps"], "mean-pool", *MODELS["resnet"]["mean-pool"]),
    combined(SINGLE["resnet/relu-missing"], "residual-swapped", *MODELS["resnet"]["residual-swapped"]),
    combined(SINGLE["t5/norm-summed"], "einsum", *MODELS["t5"]["einsum"]),
    combined(SINGLE["unet/scale"], "residual-swapped", *MODELS["unet"]["residual-swapped"]),
    combined(SINGLE["mixtral/experts-swapped"], "sdpa", attention="sdpa"),
    combined(SINGLE["lstm/softmax-axis"], "matmul-pool", *MODELS["lstm"]["matmul-pool"]),
    combined(SINGLE["mamba/skip-missing"], "own-softplus", *MODELS["mamba"]["own-softplus"]),
]
