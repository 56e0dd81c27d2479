"""Let TorchScript see the original functions.

TorchScript knows functions by identity, reads their source, and traces all calls, also those of the tool. So the
originals are put back while it works, and take the place of wrappers in its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.core.capture.patch import Patches


def show_originals(patches: Patches) -> None:
    """Add replacements of TorchScript's functions to ``patches``: inside them the patches are not in place."""
    for owner in (torch.jit, torch.jit._script):
        patches.plan(owner, "script", _with_originals(torch.jit.script, patches, frames=True))
    for name in ("trace", "trace_module"):
        patches.plan(torch.jit, name, _with_originals(getattr(torch.jit, name), patches))


def _with_originals(compiler: Callable[..., Any], patches: Patches, frames: bool = False) -> Callable[..., Any]:
    @functools.wraps(compiler)
    def with_originals(*args: Any, **kwargs: Any) -> Any:
        if frames and len(args) < 3:  # names are looked up in the frame of the caller, now one further up
            kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        with patches.suspended():
            return compiler(*_originals(args, patches), **kwargs)

    return with_originals


def _originals(values: tuple[Any, ...], patches: Patches) -> Iterator[Any]:
    for value in values:
        target = patches.target_of(value) if callable(value) else None
        yield value if target is None else getattr(*target)
