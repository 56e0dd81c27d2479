"""Parameters that follow from their logical name, so every layout starts with the same ones."""

import zlib
from dataclasses import dataclass
from typing import Any

import parallel_state as ps
import torch
from torch import nn


@dataclass(frozen=True)
class Cut:
    """What a rank has of a parameter.

    Args:
        name: the name of the parameter in the whole model, with the number of its layer there.
        shape: of this rank's part, as the whole is cut along ``axis``.
        axis: the axis of the cut.
        index: the number of the part.
        count: the number of parts; 1 where it is the whole.
    """

    name: str
    shape: tuple[int, ...]
    axis: int = 0
    index: int = 0
    count: int = 1


def parameter(name: str, *shape: int, axis: int | None = None, scale: float = 0.2, offset: float = 0.0) -> nn.Parameter:
    """Return this rank's part of a parameter; ``axis`` is that of the cut over tensor parallelism."""
    source = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    part = torch.randn(shape, generator=source) * scale + offset
    tp = ps.group("tp")
    index, count = (0, 1) if axis is None else (tp.rank, tp.size)
    part = part.chunk(count, axis or 0)[index]
    flat = part.flatten(0, -2) if len(shape) > 2 else part
    result = nn.Parameter(flat.to(getattr(torch, ps.LAYOUT.dtype)).clone())
    mark: Any = result
    mark.cut = Cut(name, tuple(part.shape), axis or 0, index, count)
    mark.partial = axis is None and ps.LAYOUT.sequence  # each rank uses it for a part of the sequence
    mark.expert = False
    return result


def cuts_of(model: nn.Module) -> dict[str, Cut]:
    """Return what each parameter of a model is a part of."""
    marked: dict[str, Any] = dict(model.named_parameters())
    return {name: each.cut for name, each in marked.items()}
