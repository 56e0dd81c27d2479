"""Held-back pairs of runs that mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.changes import GENERATION
from tests.real_models.held_back.media_changes import MEDIA
from tests.real_models.held_back.other_changes import OTHERS
from tests.real_models.held_back.text_changes import TEXT
from tests.real_models.held_back.training_changes import TRAINING, WHERE
from tests.real_models.runs import Edit, Run

MODELS = {**TEXT, **MEDIA, **OTHERS}
"""Family -> changes of its model or its training."""
SDPA = ("qwen3_moe", "deepseek_v3", "whisper", "clip", "wav2vec2", "swin", "distilbert", "dit")
"""Families with two implementations of attention; OPT's left padding has rows that see nothing, where these differ."""
BF16 = {
    "qwen3_moe": ("out-of-place-sum", "slices-for-chunks"),
    "gemma2": ("one-line-cap", "up-first"),
    "deepseek_v3": ("concatenated-keys", "shared-expert-before-routing"),
    "clip": ("text-tower-first", "losses-halved"),
    "swin": ("roll-by-slices", "windows-by-permute"),
    "convnext": ("scale-behind", "path-scaled-first"),
    "dit": ("permuted-patches", "checkpointed-block"),
    "lora": ("only-trained-parameters", "input-scaled"),
    "bloom": ("dropout-added-behind",),
    "wav2vec2": ("norm-on-two-lines",),
}
"""Changes that are made in bf16 too."""
EXACT = {
    "qwen3_moe": ("out-of-place-sum",),
    "clip": ("mlp-inlined",),
    "dit": ("permuted-patches",),
    "gemma2": ("repeated-by-interleave",),
}
"""Changes whose values are the same to the last bit: recorded as checksums too."""


def _case(run: Run, name: str, *edits: Edit, device: str = "", **arguments: str) -> Case:
    """Return a change of ``run``; what ``run`` differs in from the plain one is a part of the name."""
    parts = (run.arguments.get("dtype", ""), run.level if run.level != "mix" else "")
    suffix = "".join(f"-{part}" for part in (*parts, run.task if run.task != "statistics" else "") if part)
    return Case(f"benign/{run.family}/{name}{suffix}", run.edited(*edits, device=device, **arguments), run)


def _changes() -> Iterator[Case]:
    for name, families in WHERE.items():
        yield from (_case(Run(family), name, *TRAINING[name]) for family in families)
    for family, changes in MODELS.items():
        yield from (_case(Run(family), name, *edits) for name, edits in changes.items())
    for family, names in BF16.items():
        run = Run(family).edited(dtype="bf16")
        yield from (_case(run, name, *MODELS[family][name]) for name in names)
    for family, names in EXACT.items():
        run = replace(Run(family), task="md5")
        yield from (_case(run, name, *MODELS[family][name]) for name in names)


def _kernels() -> Iterator[Case]:
    for dtype in ("", "bf16", "autocast"):
        for family in SDPA:
            run = Run(family).edited(dtype=dtype) if dtype else Run(family)
            yield _case(run, "sdpa", attention="sdpa")
    for family in (
        "qwen3_moe",
        "gemma2",
        "clip",
        "wav2vec2",
        "swin",
        "convnext",
        "dit",
        "gnn",
        "vae",
        "policy",
        "recipe",
    ):
        yield _case(Run(family), "device-both", device="both")
    for family in ("opt", "qwen3_moe"):
        yield _case(Run(family).edited(*GENERATION), "generation-sdpa", attention="sdpa")


def _levels() -> Iterator[Case]:
    for level, task in (("L0", "statistics"), ("L1", "statistics"), ("mix", "tensor")):
        for family, name in (("dit", "modulated-by-addcmul"), ("swin", "roll-by-slices"), ("clip", "text-tower-first")):
            yield _case(replace(Run(family), level=level, task=task), name, *MODELS[family][name])
        run = replace(Run("deepseek_v3"), level=level, task=task)
        yield _case(run, "own-clip", *TRAINING["own-clip"])


BENIGN: list[Case] = [*_changes(), *_kernels(), *_levels()]
