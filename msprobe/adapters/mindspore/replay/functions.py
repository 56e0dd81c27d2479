"""From the name of a recorded call to the function that it stands for.

A name is looked up in the tables by which calls are recorded. It is never imported or evaluated, so a dump of somebody
else can ask for what MindSpore computes, and for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mindspore import ops

from msprobe.adapters.mindspore.taps.memory_tap import OWNERS
from msprobe.core.backend.custom_functions import find_custom
from msprobe.core.backend.replaying import CannotReplayError

_EXPRESSIONS = {
    "Functional": "mindspore.ops",
    "Mint": "mindspore.mint",
    "MintFunctional": "mindspore.mint.nn.functional",
    "Tensor": "mindspore.Tensor",
}
_PRIMITIVE = "Primitive"
_RANDOM = ("rand", "dropout", "normal", "uniform", "bernoulli", "multinomial", "poisson", "gamma", "shuffle", "gumbel")


class RecordedFunctions:
    """Finds functions by the names that dumps give them.

    Args:
        tables: names of functions by the prefix of their records.
        custom: modules of the user by prefix.
    """

    def __init__(self, tables: Iterable[Mapping[str, Iterable[str]]], custom: Mapping[str, Any] | None = None) -> None:
        self._custom = dict(custom or {})
        self._names: dict[str, set[str]] = {}
        for table in tables:
            for prefix, names in table.items():
                self._names.setdefault(prefix, set()).update(names)

    def find(self, prefix: str, api: str) -> Callable[..., Any]:
        """Return the function that is recorded as ``PREFIX.API``.

        Raises:
            CannotReplayError: there is none.
        """
        if function := find_custom(self._custom, prefix, api):
            return function
        if prefix == _PRIMITIVE:
            return _primitive(api.rpartition(".")[2])
        found = getattr(OWNERS[prefix], api, None) if prefix in OWNERS and api in self._names[prefix] else None
        if not callable(found):
            raise CannotReplayError(f"{prefix}.{api} is no function that msprobe records of this version of MindSpore")
        return found

    def expression(self, prefix: str, api: str) -> str:
        """Return the expression that names the function, such as ``mindspore.mint.matmul``.

        Raises:
            CannotReplayError: there is none.
        """
        self.find(prefix, api)
        if prefix == _PRIMITIVE:
            return f"mindspore.ops.{api.rpartition('.')[2]}()"
        return f"{_EXPRESSIONS[prefix]}.{api}"


def _primitive(name: str) -> Callable[..., Any]:
    """Return an operator whose class needs no arguments; those of others are not in a dump."""
    found = getattr(ops, name, None) if name[:1].isupper() else None
    if not isinstance(found, type) or not issubclass(found, ops.Primitive):
        raise CannotReplayError(f"mindspore.ops has no primitive {name}")
    try:
        made: Callable[..., Any] = found()
    except (TypeError, ValueError) as error:
        raise CannotReplayError(f"the arguments that made the primitive {name} are not in the dump") from error
    return made


def is_random(api: str) -> bool:
    """Return whether a function draws random numbers, by its name."""
    name = api.lower()
    return any(word in name for word in _RANDOM) and "layer_norm" not in name
