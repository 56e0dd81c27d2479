"""Every function that draws random numbers, found rather than listed.

PyTorch marks its operators with the tag ``nondeterministic_seeded``; Python's ``random`` and ``numpy.random`` expose
the methods of one shared generator as functions. ``replaced`` puts a wrapper around each of them:

    library          the functions
    torch_random     torch.randn, torch.bernoulli, torch.dropout, ...       (and torch._VF, what torch.nn uses)
    tensor_random    torch.Tensor.uniform_, normal_, ...
    functional_random  torch.nn.functional.dropout, scaled_dot_product_attention, ...
    python_random    random.random, random.choice, ...
    numpy_random     numpy.random.rand, ...

Generator objects of numpy (``default_rng()``) have a state of their own and cannot be reached.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.compile_switch import skip_in_dynamo
from msprobe.adapters.pytorch.device_constructors import list_device_constructors
from msprobe.adapters.pytorch.scripting import show_originals
from msprobe.core.capture.look_alike import name_after_owner
from msprobe.core.capture.patch import Patches

Around = Callable[["Source", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_STATE_FUNCTIONS = {"seed", "getstate", "setstate", "get_state", "set_state"}
_TAGGED_NAMESPACE = "aten"


@dataclass(frozen=True, slots=True)
class Source:
    """One function that draws random numbers, as ``{library}.{name}``."""

    library: str
    owner: Any
    name: str


def sources() -> Iterator[Source]:
    """All of them, in this process and version of PyTorch."""
    yield from _of_instance("python_random", random, random._inst)
    yield from _of_instance("numpy_random", np.random, np.random.mtrand._rand)
    owners = {
        "torch_random": (torch, torch._VF),
        "tensor_random": (torch.Tensor,),
        "functional_random": (torch.nn.functional,),
    }
    names = sorted(tagged_operators())
    for library, places in owners.items():
        for owner in places:
            yield from (Source(library, owner, name) for name in names if callable(getattr(owner, name, None)))


def tagged_operators() -> set[str]:
    """Names of the operators that PyTorch itself marks as drawing from a seeded generator: the public ones, and of the
    others those that can be given one, such as ``_standard_gamma``, which distributions call.
    """
    found = set()
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != _TAGGED_NAMESPACE or name in found:
            continue
        operator = torch._C._get_operation_overload(f"{namespace}::{name}", overload)
        if operator is None or torch.Tag.nondeterministic_seeded not in operator[2]:
            continue
        if not name.startswith("_") or _takes_generator(name, overload):
            found.add(name)
    return found


def _takes_generator(name: str, overload: str) -> bool:
    return any(argument.name == "generator" for argument in torch._C._get_schema(f"aten::{name}", overload).arguments)


def replaced(around: Around) -> Patches:
    """Patches, not yet applied, that send the outermost call of each source through ``around(source, original, args,
    kwargs)``.
    """
    list_device_constructors()
    patches = Patches()
    inside = threading.local()
    for source in sources():
        original = getattr(source.owner, source.name)
        patches.plan(source.owner, source.name, _wrapped(source, original, around, inside))
    show_originals(patches)
    return patches


def _of_instance(library: str, module: Any, instance: Any) -> Iterator[Source]:
    for name in dir(module):
        if name not in _STATE_FUNCTIONS and getattr(getattr(module, name), "__self__", None) is instance:
            yield Source(library, module, name)


def _wrapped(source: Source, original: Callable[..., Any], around: Around, inside: threading.local) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "busy", False):
            return original(*args, **kwargs)
        inside.busy = True
        try:
            return around(source, original, args, kwargs)
        finally:
            inside.busy = False

    functools.update_wrapper(call, original, updated=())
    if not isinstance(original, FunctionType):
        name_after_owner(call, source.owner, source.name)
    skip_in_dynamo(call, inside=True)
    return call


class RandomState:
    """The states of Python's, numpy's and PyTorch's shared generators (CPU, and devices already in use)."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._devices = [(device, device.get_rng_state_all()) for device in _devices()]

    def restore(self, library: str) -> None:
        """Bring the generator that ``library`` draws from back to this state."""
        if library == "python_random":
            random.setstate(self._python)
        elif library == "numpy_random":
            np.random.set_state(self._numpy)
        else:
            torch.set_rng_state(self._torch)
            for device, states in self._devices:
                device.set_rng_state_all(states)


def _devices() -> list[Any]:
    found = [getattr(torch, name, None) for name in ("cuda", "npu")]
    return [device for device in found if device is not None and device.is_available()]
