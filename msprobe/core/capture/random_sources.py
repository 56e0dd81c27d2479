"""The functions of Python and numpy that draw random numbers from a generator that the whole program shares."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_STATE_FUNCTIONS = {"seed", "getstate", "setstate", "get_state", "set_state"}


@dataclass(frozen=True, slots=True)
class RandomSource:
    """One function that draws random numbers, as ``{library}.{name}``."""

    library: str
    owner: Any
    name: str


def host_sources() -> Iterator[RandomSource]:
    """Yield the functions of ``random`` and ``numpy.random``: methods of one generator, exposed as functions.

    Generator objects of numpy (``default_rng()``) have a state of their own and cannot be reached.
    """
    import numpy as np

    yield from _instance_sources("python_random", random, vars(random)["_inst"])
    yield from _instance_sources("numpy_random", np.random, vars(np.random.mtrand)["_rand"])


def _instance_sources(library: str, module: Any, instance: Any) -> Iterator[RandomSource]:
    for name in dir(module):
        if name not in _STATE_FUNCTIONS and getattr(getattr(module, name), "__self__", None) is instance:
            yield RandomSource(library, module, name)
