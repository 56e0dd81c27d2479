"""From the name of a recorded call to the function that it stands for.

A name is looked up in the tables by which calls are recorded. It is never imported or evaluated, so a dump of somebody
else can ask for what MindSpore computes, and for nothing more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mindspore import ops

from msprobe.adapters.mindspore.taps.memory_tap import OWNERS
from msprobe.core.backend.custom_functions import find_custom
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through

_EXPRESSIONS = {
    "Functional": "mindspore.ops",
    "Mint": "mindspore.mint",
    "MintFunctional": "mindspore.mint.nn.functional",
    "Tensor": "mindspore.Tensor",
}
_PRIMITIVE = "Primitive"
_OPERATORS = (
    "mindspore.ops.auto_generate.gen_ops_prim",
    *(f"mindspore.ops.operations.{name}" for name in ("array_ops", "math_ops", "nn_ops", "image_ops", "linalg_ops")),
    *(f"mindspore.ops.operations.{name}" for name in ("manually_defined", "clip_ops", "sparse_ops", "spectral_ops")),
)
"""The modules of operators that compute. Others load libraries, write files or print: a dump must not ask for them."""
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

    def find(self, prefix: str, api: str, attributes: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """Return the function that is recorded as ``PREFIX.API``.

        Args:
            prefix, api: its name.
            attributes: the arguments that made it, where it is an operator; None where the record has none.

        Raises:
            CannotReplayError: there is none.
        """
        if function := find_custom(self._custom, prefix, api):
            return function
        if prefix == _PRIMITIVE:
            return _primitive(api.rpartition(".")[2], attributes)
        found = getattr(OWNERS[prefix], api, None) if prefix in OWNERS and api in self._names[prefix] else None
        if not callable(found):
            raise CannotReplayError(f"{prefix}.{api} is no function that msprobe records of this version of MindSpore")
        return found

    def expression(self, prefix: str, api: str, attributes: str = "") -> str:
        """Return the expression that names the function, such as ``mindspore.mint.matmul``.

        Args:
            prefix, api: its name; ``find`` knows it.
            attributes: the arguments that make an operator, as source code.
        """
        if prefix == _PRIMITIVE:
            return f"mindspore.ops.{api.rpartition('.')[2]}({attributes})"
        return f"{_EXPRESSIONS[prefix]}.{api}"


def _primitive(name: str, attributes: Mapping[str, Any] | None) -> Callable[..., Any]:
    """Return an operator of MindSpore that computes and does nothing else, made of its attributes."""
    found = getattr(ops, name, None) if name[:1].isupper() else None
    if not isinstance(found, type) or not issubclass(found, ops.Primitive):
        raise CannotReplayError(f"mindspore.ops has no primitive {name}")
    if not found.__module__.startswith(_OPERATORS):
        raise CannotReplayError(f"the primitive {name} is none of those that are known to compute and do nothing else")
    if attributes is None and inspect.signature(found).parameters:
        raise CannotReplayError(f"the arguments that made the primitive {name} are not in the dump")
    try:
        made: Any = found(**(attributes or {}))
    except (TypeError, ValueError, RuntimeError) as error:
        let_through(error)
        raise CannotReplayError(
            f"the primitive {name} cannot be made of its attributes: {error_text(error)}"
        ) from error
    if made.attrs.get("side_effect_io"):
        raise CannotReplayError(f"the primitive {name} does more than compute")
    function: Callable[..., Any] = made
    return function


def is_random(api: str) -> bool:
    """Return whether a function draws random numbers, by its name."""
    name = api.lower()
    return any(word in name for word in _RANDOM) and "layer_norm" not in name
