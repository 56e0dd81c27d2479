"""Which variants are recorded how."""

from __future__ import annotations

from typing import Any

from tests.zoo.faults import FAULTS
from tests.zoo.harmless import HARMLESS

MODES: dict[str, dict[str, Any]] = {
    "mix": {},
    "L0": {"level": "L0"},
    "L1": {"level": "L1"},
    "md5": {"summary_mode": "md5"},
    "tensor": {"task": "tensor", "level": "L0"},
    "early": {"update": False},
}

# Beside everything at mix. A mode is listed with what it must name.
PERMUTED = ("merge-without-transpose", "merge-transposed-twice", "heads-and-channels-mixed")
FAULTS_OF = {
    "mix": tuple(FAULTS),
    "L0": (
        *("gelu-tanh", "transposed-weight", "wrong-backward", "detached-mlp", "gradient-hook", "nan-forward"),
        *("learning-rate", "weight-decay", "weight-corrupted-later", "norm-missing", "blocks-run-backwards"),
        *("embedding-scaled", "label-shift", "loss-sum"),
    ),
    "L1": ("layernorm-eps", "softmax-axis", "mask-missing", "transposed-weight", "detached-key", "loss-sum"),
    "md5": (*PERMUTED, "one-weight-element", "embedding-rows-swapped", "wrong-backward", "betas"),
    "tensor": (*PERMUTED, "embedding-rows-swapped", "frozen-weight"),
    "early": ("learning-rate", "weight-decay", "weight-corrupted-later", "relu-for-gelu"),
}
HARMLESS_OF = {
    "mix": tuple(HARMLESS),
    "L0": tuple(HARMLESS),
    "L1": ("rerun", "other-thread-count", "recompute-reentrant", "recompute-non-reentrant"),
    "md5": ("rerun", "recompute-reentrant", "recompute-non-reentrant", "refactored"),  # checksums allow no rounding
    "tensor": ("rerun", "other-thread-count", "recompute-non-reentrant"),
    "early": ("rerun", "recompute-non-reentrant"),
}
