"""Pairs of runs that mean the same: each is the same up to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.real_models.cases import Case
from tests.real_models.changes import FUSED, GENERATION, MODELS, TRAINING
from tests.real_models.runs import FAMILIES, Edit, Run

SDPA = tuple(family for family in FAMILIES if family not in ("mamba", "resnet", "lstm"))
"""Families with two implementations of attention."""
GENERATORS = ("llama", "gpt2", "mixtral")
OTHER_DTYPES = ("bf16", "fp16", "autocast")
COARSE = {"own-layer-norm"}
"""Changes that compute in the dtype of the model what the healthy program computes in fp32."""


def _case(run: Run, name: str, *edits: Edit, device: str = "", **arguments: str) -> Case:
    """Return a change of ``run``; what ``run`` differs in from the plain one is a part of the name."""
    parts = (run.arguments.get("dtype", ""), run.level if run.level != "mix" else "")
    suffix = "".join(f"-{part}" for part in (*parts, run.task if run.task != "statistics" else "") if part)
    return Case(f"benign/{run.family}/{name}{suffix}", run.edited(*edits, device=device, **arguments), run)


def _changes() -> Iterator[Case]:
    """Yield all changes in fp32, and those of models in other dtypes."""
    for name, edits in TRAINING.items():
        yield from (_case(Run(family), name, *edits) for family in FAMILIES)
    for family, changes in MODELS.items():
        for name, edits in changes.items():
            yield _case(Run(family), name, *edits)
            if name not in COARSE and not name.startswith("compiled"):
                yield _case(_in_dtype(family, "bf16"), name, *edits)
    for dtype in OTHER_DTYPES:
        for family in ("llama", "resnet", "unet", "bert"):
            yield _case(_in_dtype(family, dtype), "fused", FUSED)
        yield _case(_in_dtype("llama", dtype), "compiled-layer", *MODELS["llama"]["compiled-layer"])
    for dtype in ("fp16", "autocast"):
        for name in ("residual-swapped", "divided-scores", "fused-qkv", "fused-norm", "inlined-mlp"):
            yield _case(_in_dtype("llama", dtype), name, *MODELS["llama"][name])


def _kernels() -> Iterator[Case]:
    """Yield another implementation of attention, and emulated devices, in all dtypes."""
    for dtype in ("", *OTHER_DTYPES):
        yield from (_case(_in_dtype(family, dtype), "sdpa", attention="sdpa") for family in SDPA)
        for family in FAMILIES:
            for device in ("both",) if dtype else ("products", "functions", "both"):
                yield _case(_in_dtype(family, dtype), f"device-{device}", device=device)


def _generation() -> Iterator[Case]:
    for family in GENERATORS:
        run = Run(family).edited(*GENERATION)
        yield _case(run, "generation-sdpa", attention="sdpa")
        yield _case(run, "generation-device-both", device="both")


def _levels() -> Iterator[Case]:
    """Yield changes that are seen at other levels, and with whole tensors."""
    for level, task in (("L0", "statistics"), ("L1", "statistics"), ("mix", "tensor")):
        llama = replace(Run("llama"), level=level, task=task)
        yield _case(llama, "sdpa", attention="sdpa")
        yield _case(llama, "residual-swapped", *MODELS["llama"]["residual-swapped"])
        yield _case(llama, "fused-qkv", *MODELS["llama"]["fused-qkv"])
        yield _case(llama, "device-both", device="both")
        yield _case(replace(Run("resnet"), level=level, task=task), "fused", FUSED)
        yield _case(replace(Run("unet"), level=level, task=task), "sdpa", attention="sdpa")


def _in_dtype(family: str, dtype: str) -> Run:
    return Run(family).edited(dtype=dtype) if dtype else Run(family)


BENIGN: list[Case] = [*_changes(), *_kernels(), *_generation(), *_levels()]
