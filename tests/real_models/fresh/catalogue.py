"""All cases of the fresh set: families, faults and changes written after the rules were made with the older sets.

``COMBINED`` are faults together with a harmless change, which must neither alarm nor hide them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.faults.combined import combined, in_dtype
from tests.real_models.fresh import media_changes, media_faults, other_changes, other_faults, text_changes, text_faults
from tests.real_models.held_back.training_changes import TRAINING
from tests.real_models.runs import Edit, Run

CHANGES: dict[str, dict[str, tuple[Edit, ...]]] = {
    "deberta_v2": text_changes.DEBERTA,
    "gpt_neox": text_changes.GPT_NEOX,
    "bart": text_changes.BART,
    "retention": text_changes.RETENTION,
    "vit_mae": media_changes.VIT_MAE,
    "nerf": media_changes.NERF,
    "detector": media_changes.DETECTOR,
    "vqvae": media_changes.VQVAE,
    "ctc": other_changes.CTC,
    "dlrm": other_changes.DLRM,
    "dqn": other_changes.DQN,
    "maml": other_changes.MAML,
    "mixer": other_changes.MIXER,
}
"""Family -> changes."""
SDPA = ("gpt_neox", "bart", "vit_mae")
"""Families with two implementations of attention."""
OTHER_DTYPES = {
    "bf16": {
        "deberta_v2": ("divided-scores", "heads-by-transpose", "masked-by-where"),
        "gpt_neox": ("two-passes", "terms-by-cross-entropy", "residual-first", "mlp-first"),
        "bart": ("keys-and-values-together", "smoothed-by-hand", "shifted-by-roll"),
        "vit_mae": ("restored-by-index", "only-hidden-patches", "standardized-together"),
        "detector": ("enlarged-by-repeat", "small-level-first", "known-by-mask"),
        "retention": ("query-scaled", "one-projection", "in-chunks"),
    },
    "autocast": {
        "deberta_v2": ("scores-collected", "convolution-out-of-place", "only-known-words"),
        "gpt_neox": ("softplus-for-logsigmoid", "reference-first", "checkpointing"),
        "bart": ("positions-by-functional", "no-dropout-call"),
        "vit_mae": ("kept-by-index", "mask-by-rank"),
        "nerf": ("rays-in-halves", "free-by-sum-of-logs"),
        "detector": ("enlarged-by-view", "focal-by-logsigmoid"),
        "ctc": ("not-packed", "mean-by-hand"),
        "dlrm": ("weighed-by-softplus",),
        "retention": ("step-by-step", "own-swish"),
    },
}
"""Dtype -> family -> changes that are made in it too."""
TRAINED = {
    "own-clip": ("deberta_v2", "retention", "dlrm"),
    "own-adam": ("detector", "bart"),
    "cleared-after-step": ("nerf", "maml"),
    "functional-gradient": ("ctc", "retention"),
    "forward-hooks": ("nerf", "dlrm"),
    "validated-inside": ("bart", "retention"),
    "update-norms-logged": ("ctc", "gpt_neox"),
}
"""Name of a change of the training script -> families."""
ON_A_DEVICE = ("retention", "nerf", "detector", "ctc", "dqn", "dlrm", "maml", "bart")
"""Families that also run on an emulated device."""
FAMILY_FAULTS = (
    *(text_faults.DEBERTA, text_faults.GPT_NEOX, text_faults.BART, text_faults.RETENTION),
    *(media_faults.VIT_MAE, media_faults.NERF, media_faults.DETECTOR, media_faults.VQVAE),
    *(other_faults.CTC, other_faults.DLRM, other_faults.DQN, other_faults.MAML, other_faults.MIXER),
)
SINGLE = {case.name.removeprefix("fault/"): case for faults in FAMILY_FAULTS for case in faults}
"""Family and fault -> the case."""


def _benign() -> Iterator[Case]:
    for family, changes in CHANGES.items():
        yield from (_case(Run(family), name, *edits) for name, edits in changes.items())
    for name, families in TRAINED.items():
        yield from (_case(Run(family), name, *TRAINING[name]) for family in families)
    for dtype, families in OTHER_DTYPES.items():
        for family, names in families.items():
            run = Run(family).edited(dtype=dtype)
            yield from (_case(run, name, *CHANGES[family][name]) for name in names)
    for family in SDPA:
        for run in (Run(family), Run(family).edited(dtype="bf16"), Run(family).edited(dtype="autocast")):
            yield _case(run, "sdpa", attention="sdpa")
    yield from (_case(Run(family), "device-both", device="both") for family in ON_A_DEVICE)


def _case(run: Run, name: str, *edits: Edit, device: str = "", **arguments: str) -> Case:
    """Return a change of ``run``, whose dtype is a part of the name."""
    suffix = f"-{run.arguments['dtype']}" if "dtype" in run.arguments else ""
    return Case(f"benign/{run.family}/{name}{suffix}", run.edited(*edits, device=device, **arguments), run)


def _both(fault: str, change: str) -> Case:
    changes = CHANGES[fault.partition("/")[0]]
    return combined(SINGLE[fault], change, *(changes[change] if change in changes else TRAINING[change]))


FAULTS = [
    *SINGLE.values(),
    *(in_dtype(SINGLE[name], "bf16") for name in ("bart/norm-before-residual", "vit_mae/mean-of-all-patches")),
    *(in_dtype(SINGLE[name], "autocast") for name in ("deberta_v2/norm-eps", "nerf/density-cut", "ctc/lower-limit")),
    *(in_dtype(SINGLE[name], "autocast") for name in ("retention/present-not-seen", "gpt_neox/norm-shared")),
]
COMBINED = [
    combined(SINGLE["gpt_neox/query-and-key-exchanged"], "sdpa", attention="sdpa"),
    combined(SINGLE["bart/position-offset"], "sdpa", attention="sdpa"),
    combined(SINGLE["vit_mae/mask-inverted"], "sdpa", attention="sdpa"),
    _both("deberta_v2/positions-not-mirrored", "heads-by-transpose"),
    _both("gpt_neox/mean-of-words", "two-passes"),
    _both("bart/labels-not-smoothed", "keys-and-values-together"),
    _both("retention/gate-not-multiplied", "in-chunks"),
    _both("retention/words-not-scaled", "own-clip"),
    _both("vit_mae/mean-of-all-patches", "kept-by-index"),
    _both("nerf/own-point-in-the-way", "skip-by-two-products"),
    _both("nerf/sky-missing", "pixel-by-product"),
    _both("detector/focus-not-squared", "enlarged-by-repeat"),
    _both("detector/stride-of-first-level", "small-level-first"),
    _both("vqvae/average-too-slow", "followed-by-lerp"),
    _both("vqvae/commitment-weight", "straight-through-function"),
    _both("ctc/softmax-over-time", "clamped"),
    _both("dlrm/weight-of-clicks", "bags-by-index-add"),
    _both("dqn/discount", "loaded-copy"),
    _both("dqn/smoothing", "own-huber"),
    _both("maml/rate", "forward-by-hand"),
    _both("mixer/other-gelu", "foreach-lion"),
    _both("mixer/weight-decay", "clipped-by-hand"),
]
FRESH = [
    replace(case, name=f"fresh-{case.name}")
    for case in (*_benign(), *FAULTS, *COMBINED, *(case.reversed() for case in (*FAULTS, *COMBINED)))
]
"""Harmless changes, faults, and the faults in the run that is thought to be right."""
