"""``seed_all``: fix the random generators, and optionally make operators deterministic and dropout idle."""

from __future__ import annotations

import functools
import os
import random
from typing import Any

import numpy as np
import torch

from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger

_LARGEST_SEED = 2**32 - 1
_DROPOUTS = ("dropout", "dropout2d", "dropout3d")


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False) -> None:
    """Make two runs comparable.

    Args:
        seed: for Python, numpy and torch (every device), 0 to 2**32 - 1.
        mode: also ask torch for deterministic operators (slower).
        rm_dropout: let the functional dropouts pass values through unchanged.

    Raises:
        MsprobeException: an argument is of the wrong type or out of range.
    """
    _check(seed, mode=mode, rm_dropout=rm_dropout)
    os.environ["PYTHONHASHSEED"] = str(seed)
    os.environ["HCCL_DETERMINISTIC"] = "True"
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if rm_dropout:
        _remove_dropout()


def _remove_dropout() -> None:
    for name in _DROPOUTS:
        original = getattr(torch.nn.functional, name)
        if not hasattr(original, "_msprobe_idle"):
            setattr(torch.nn.functional, name, _idle(original))
    logger.info("dropout, dropout2d and dropout3d pass their input through from now on")


def _idle(original: Any) -> Any:
    @functools.wraps(original)
    def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        result: torch.Tensor = original(input, 0.0, training, inplace)
        return result

    dropout._msprobe_idle = True  # type: ignore[attr-defined]
    return dropout


def _check(seed: Any, **switches: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise MsprobeException(0, f"seed_all: seed is an integer from 0 to {_LARGEST_SEED}, got {seed!r}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise MsprobeException(0, f"seed_all: {name} is True or False, got {value!r}")
