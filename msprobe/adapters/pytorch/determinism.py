"""``seed_all``: fix the random generators, and optionally make operators deterministic and dropout idle."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from msprobe.adapters.pytorch.idle_dropout import remove_dropout
from msprobe.adapters.pytorch.random_sources import RandomState, Source, replaced
from msprobe.core.capture.patch import Patches
from msprobe.core.dump import handle
from msprobe.core.log import first_time, logger
from msprobe.core.seeding import check_seed, seed_host


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False, is_enhanced: bool = False) -> None:
    """Make two runs comparable.

    Args:
        seed: for Python, numpy and torch (every device), 0 to 2**32 - 1.
        mode: also ask torch for deterministic operators (slower).
        rm_dropout: let every dropout pass values through unchanged, until the process ends.
        is_enhanced: every call of a random function starts from the same state, so it returns the same numbers each
            time. Good for telling whether randomness is the cause of a difference, and for nothing else.

    Raises:
        MsprobeException: an argument is of the wrong type or out of range.
    """
    check_seed(seed, mode=mode, rm_dropout=rm_dropout, is_enhanced=is_enhanced)
    seed_host(seed)
    os.environ["HCCL_DETERMINISTIC"] = "True"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    _seed_devices(seed)
    if (rm_dropout or is_enhanced) and handle.peek() is not None and first_time("seed_all after the debugger"):
        logger.warning("seed_all: call it before PrecisionDebugger is made; recorded functions stay random otherwise")
    _enhance_no_more()
    if rm_dropout:
        remove_dropout()
    if is_enhanced:
        _enhance()


def _seed_devices(seed: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_available():
        npu.manual_seed_all(seed)
        os.environ.update(LCCL_DETERMINISTIC="1", CLOSE_MATMUL_K_SHIFT="1", ATB_LLM_LCOC_ENABLE="0")


_fixed: Patches | None = None


def _enhance_no_more() -> None:
    global _fixed
    if _fixed is not None:
        _fixed.undo()
        _fixed = None


def _enhance() -> None:
    """Put the random functions under one fixed state; a later ``seed_all`` fixes the new one, or ends it."""
    global _fixed
    state = RandomState()

    def around(source: Source, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state.restore(source.library)
        try:
            return original(*args, **kwargs)
        finally:
            state.restore(source.library)

    _fixed = replaced(around)
    _fixed.apply()
    logger.info("every call of a random function returns the same numbers from now on (is_enhanced)")
