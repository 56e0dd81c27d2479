"""``seed_all`` for MindSpore: fix the random generators, and optionally use deterministic operators and no dropout."""

from __future__ import annotations

import functools
from typing import Any

from mindspore import mint, nn, ops

from msprobe.adapters.mindspore.versions import make_deterministic, seed_generators
from msprobe.core.host import check_seed, seed_host
from msprobe.core.log import logger

_CELLS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d")


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False) -> None:
    """Make two runs comparable.

    Args:
        seed: for Python, numpy and MindSpore, 0 to 2**32 - 1.
        mode: also ask MindSpore for deterministic operators (slower).
        rm_dropout: let the dropouts of ``nn``, ``ops`` and ``mint`` pass values through unchanged, until the process
            ends.

    Raises:
        MsprobeException: an argument is of the wrong type or out of range.
    """
    check_seed(seed, mode=mode, rm_dropout=rm_dropout)
    seed_host(seed)
    seed_generators(seed)
    if mode:
        make_deterministic()
    if rm_dropout:
        _remove_dropout()


def _remove_dropout() -> None:
    for owner in (nn, mint.nn):
        for name in _CELLS:
            if hasattr(owner, name):
                getattr(owner, name).construct = _unchanged
    for owner in (ops, mint.nn.functional):
        for name in _FUNCTIONS:
            original = getattr(owner, name, None)
            if original is not None and not hasattr(original, "_msprobe_disabled"):
                setattr(owner, name, _disabled(original))
    logger.info("dropout passes its input through from now on")


def _unchanged(self: Any, x: Any) -> Any:
    return x


def _disabled(original: Any) -> Any:
    @functools.wraps(original)
    def dropout(input: Any, *args: Any, **kwargs: Any) -> Any:
        return input

    dropout._msprobe_disabled = True  # type: ignore[attr-defined]
    return dropout
