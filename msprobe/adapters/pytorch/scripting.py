"""TorchScript among replaced functions.

It knows functions by what they are, reads their source, and takes down all calls, the tool's as well. So it is shown
the originals: at their places, and in what it is handed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.core.capture.patch import Patches


def show_originals(patches: Patches) -> None:
    """Plan, with ``patches``, that TorchScript does not see them."""
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
        place = patches.target_of(value) if callable(value) else None
        yield value if place is None else getattr(*place)
