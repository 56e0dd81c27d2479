"""A link between two devices that loses data, emulated below torch.distributed on this machine.

A real one (GPU peer-to-peer copies over a switch with ACS or a broken driver) fails without an error: the call
returns and a part of the destination is what it was or zero. ``break_link`` does that to the results of one kind of
call on one rank, inside the process group, so that a program and what records it see an ordinary call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def _lose(tensor: torch.Tensor, share: float) -> None:
    flat = tensor.view(-1)
    flat[int(len(flat) * (1 - share)) :] = 0


class _Done:
    """The handle of work that has ended; that of gloo must not be waited for twice."""

    def wait(self, *_: Any) -> bool:
        return True


def break_link(call: str, rank: int, share: float = 0.5, smallest: int = 64) -> None:
    """Lose the end of what ``call`` (recv, broadcast, allreduce) brings to ``rank``, from ``smallest`` elements on."""
    if dist.get_rank() != rank:
        return
    kind: Any = dist.ProcessGroup
    original: Callable[..., Any] = getattr(kind, call)

    def lossy(group: Any, tensors: list[torch.Tensor], *arguments: Any, **named: Any) -> Any:
        work = original(group, tensors, *arguments, **named)
        work.wait()
        for tensor in tensors if isinstance(tensors, list) else [tensors]:
            if tensor.numel() >= smallest:
                _lose(tensor, share)
        return _Done()

    setattr(kind, call, lossy)
