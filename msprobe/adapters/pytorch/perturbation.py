"""Parameters and inputs of a model, moved by one unit round-off: what rounding does to a program (key ``perturb``).

Each element becomes one of its two neighbours among the numbers of its dtype, by chance. What is zero or not finite
stays, as do integers, and the float8 dtypes, of which a neighbour is up to an eighth away. Random numbers come from a
generator of the perturbation's own, so that those of the program stay the same.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from msprobe.core.capture.containers import DEPTH_LIMIT, with_parts
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.slots import place_of
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.session.debugger import models_with_prefixes

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers that have the bits of floats of so many bytes: their neighbours are those of the floats."""


class TorchPerturbation:
    """Implements ``Perturbation``.

    Args:
        seed: of the random numbers that choose the neighbours.
        thread: says while the tool works, so that nothing of it is recorded.
    """

    def __init__(self, seed: int, thread: ThreadState) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._thread = thread
        self._models: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def move_parameters(self, model: Any) -> None:
        parts = [part for _, part in models_with_prefixes(model, nn.Module, "torch.nn.Module", "Module")]
        new = [part for part in parts if part not in self._models]
        self._models.update(new)
        with self._thread.quiet(), outside_modes(), torch.no_grad():
            for parameter in nn.ModuleList(new).parameters():  # each once, also where two models share it
                local = getattr(parameter, "_local_tensor", parameter)  # of a DTensor: the part of this rank
                local.copy_(moved(local, self._generator))

    def take_over(self, earlier: TorchPerturbation | None) -> None:
        if earlier is not None:
            self._models, self._generator = earlier._models, earlier._generator

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()
        place = place_of(nn.Module, "__call__")
        patches.plan(*place, self._call_with_moved(getattr(*place)))
        with patches.in_force():
            yield

    def _call_with_moved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        models, thread = self._models, self._thread

        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if module in models and not is_traced():
                with thread.quiet(), outside_modes():
                    args, kwargs = self._moved_parts(args), self._moved_parts(kwargs)
            return original(module, *args, **kwargs)

        skip_in_dynamo(call)
        return call

    def _moved_parts(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, torch.Tensor):
            return self._moved_input(value)
        if depth > DEPTH_LIMIT or type(value) not in (list, tuple, dict):
            return value
        return with_parts(value, lambda _, part: self._moved_parts(part, depth + 1))

    def _moved_input(self, value: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            neighbour = moved(value, self._generator)
        if not value.requires_grad:
            return neighbour
        return value + (neighbour - value.detach())  # exact, as both differences are: the gradient flows as before


def moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor of which each element is a neighbour of that of ``tensor``, which requires no gradient.

    >>> moved(torch.ones(2), torch.Generator().manual_seed(0)) - 1 != 0
    tensor([True, True])
    """
    if tensor.is_complex():
        return torch.view_as_complex(moved(torch.view_as_real(tensor.resolve_conj()), generator))
    dtype = _BITS.get(tensor.element_size()) if tensor.is_floating_point() else None
    if dtype is None or type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout is not torch.strided:
        return tensor
    dense = tensor.detach().contiguous()
    up = torch.randint(0, 2, dense.shape, generator=generator, dtype=torch.int8).to(dense.device)
    neighbour = (dense.view(dtype) + (2 * up - 1).to(dtype)).view(dense.dtype)
    return torch.where((dense != 0) & torch.isfinite(dense) & torch.isfinite(neighbour), neighbour, dense)
