"""Parameters and inputs that are equal in every layout of one model (``msprobe.pytorch.parallel.consistent_``).

Layouts draw their first values in another order, so two of them begin differently. Here a value follows from a seed,
the name of its parameter in the whole model and the place in the whole parameter. Each rank makes the whole tensor and
keeps its own part.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd
from msprobe.core.dump.record.declared_shards import ATTRIBUTE
from msprobe.core.errors import MsprobeException, argument_text

_AROUND_ONE = 0.1
"""How far the weights of a norm are from one, and biases from zero."""
Lengths = Mapping[int, Mapping[str, tuple[int, ...]]]
"""By rank the shapes of its parts, by name."""


def consistent_(
    value: nn.Module | torch.Tensor, seed: int = 0, *, names: Callable[[str], str] | None = None, name: str = "input"
) -> None:
    """Fill parameters, or one tensor, with numbers that are the same in every layout.

    A weight with several axes is uniform within ``1 / sqrt(n)``, where each of its first indices has ``n`` elements;
    one with a single axis lies around 1, and other parameters of a single axis around 0. A part holds the elements that
    ``shard`` says, or the placements of a DTensor. All ranks have to call this together in a job of several. Buffers
    and integers stay.

    Args:
        value: the model of this rank, or a tensor such as an input.
        seed: another seed gives other numbers.
        names: returns the name of a parameter in the whole model; needed where a stage counts its layers from 0.
        name: the name of ``value`` where it is a tensor.

    Raises:
        MsprobeException: ``value`` is neither a model nor a tensor, or parts of one parameter do not fit together.
    """
    if isinstance(value, nn.Module):
        tensors: dict[str, torch.Tensor] = {
            names(own) if names is not None else own: parameter for own, parameter in value.named_parameters()
        }
    elif isinstance(value, torch.Tensor):
        tensors = {name: value}
    else:
        raise _error(f"expected a model or a tensor, got {argument_text(value)}")
    floats = {key: tensor for key, tensor in tensors.items() if tensor.is_floating_point()}
    lengths = _shapes_of_ranks(floats)
    with WithoutAutograd():
        for key, tensor in floats.items():
            _fill(tensor, key, seed, lengths)


def _fill(tensor: torch.Tensor, name: str, seed: int, lengths: Lengths) -> None:
    if hasattr(tensor, "placements"):  # a DTensor: it knows its whole shape, and cuts a whole tensor itself
        from torch.distributed.tensor import distribute_tensor

        sharded: Any = tensor
        whole = _whole(name, tuple(tensor.shape), seed).to(sharded.to_local().device, tensor.dtype)
        tensor.copy_(distribute_tensor(whole, sharded.device_mesh, sharded.placements))
        return
    shape, begins = list(tensor.shape), [0] * tensor.dim()
    for part in getattr(tensor, ATTRIBUTE, ()):
        axis, ranks = part["dim"], part["group"]
        if axis is not None:
            parts = [_length(lengths, rank, name, axis) for rank in ranks]
            shape[axis], begins[axis] = sum(parts), sum(parts[: ranks.index(dist.get_rank())])
    own = _whole(name, tuple(shape), seed)
    for axis, (begin, length) in enumerate(zip(begins, tensor.shape, strict=True)):
        own = own.narrow(axis, begin, length)
    tensor.copy_(own.to(tensor.dtype))


def _whole(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return the whole tensor of a name, in float32 on the host."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    numbers = torch.rand(shape, generator=generator) * 2.0 - 1.0
    if len(shape) > 1:
        return numbers / math.sqrt(max(numbers[0].numel(), 1))
    return numbers * _AROUND_ONE + (1.0 if name.endswith("weight") else 0.0)


def _shapes_of_ranks(tensors: Mapping[str, torch.Tensor]) -> Lengths:
    """Return the shapes of the declared parts of all ranks; nothing is communicated where torch has one process."""
    own = {name: tuple(tensor.shape) for name, tensor in tensors.items() if hasattr(tensor, ATTRIBUTE)}
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return {0: own}
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, own)
    return dict(enumerate(everywhere))


def _length(lengths: Lengths, rank: int, name: str, axis: int) -> int:
    shape = lengths.get(rank, {}).get(name)
    if shape is None or axis >= len(shape):
        raise _error(f"rank {rank} has no part of {name}: declare it there with shard too, under the same name")
    return shape[axis]


def _error(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"consistent_: {text}")
