"""What this MindSpore is and how it is set up at the moment, as plain values."""

from __future__ import annotations

import re
from typing import Any

import mindspore

from msprobe.adapters.mindspore.versions import api, executor
from msprobe.core.kernels.request import RuntimeFacts


def runtime_facts() -> RuntimeFacts:
    """Mode, jit level, device and version of this process."""
    return RuntimeFacts(
        graph_mode=mindspore.get_context("mode") == mindspore.GRAPH_MODE,
        jit_level=_jit_level(),
        device=str(mindspore.get_context("device_target")),
        version=tuple(int(part) for part in re.findall(r"\d+", mindspore.__version__)[:3]),
    )


def on_cpu() -> bool:
    """Whether every tensor lies in memory that this process can read."""
    return bool(mindspore.get_context("device_target") == "CPU")


def graph_compiled() -> bool:
    """Whether a graph or a jit function has been compiled in this process."""
    cells: dict[int, Any] = getattr(api(), "cells_compile_cache", {})
    return bool(getattr(api(), "ms_compile_cache", ())) or any(cells.values())


def settle() -> None:
    """Wait until everything that was launched has run; graphs under a gradient run behind the program's back.

    A kernel of the user's program that failed is raised here, as it would be where its result is read.
    """
    executor().sync()


def _jit_level() -> str:
    """As set by ``set_context(jit_level=...)`` or ``jit_config``; "" when nothing is."""
    try:
        level = mindspore.get_context("jit_level")
    except (KeyError, ValueError, RuntimeError):  # not a key of this version
        level = ""
    if not level:
        config = mindspore.get_context("jit_config")
        level = config.get("jit_level", "") if isinstance(config, dict) else ""
    return str(level or "")
