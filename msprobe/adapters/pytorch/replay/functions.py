"""From the name of a recorded call to the functions that it may stand for.

A name is looked up in the tables by which calls are recorded, or as an operator of ``torch.ops``. It is never imported
or evaluated, so a dump of somebody else can ask for what torch computes, and for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from msprobe.adapters.pytorch.recorded_names import OWNERS
from msprobe.core.backend.custom_functions import find_custom
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.capture.patching import find_holder

_NAMESPACES = {"Aten": "aten", "NPU": "npu"}
_EXPRESSIONS = {"Functional": "torch.nn.functional", "Tensor": "torch.Tensor", "Torch": "torch", "VF": "torch._VF"}
_DRAWN_INSIDE = frozenset({
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gumbel_softmax",
})
"""Functions of Python that draw random numbers by operators of other names."""


class RecordedFunctions:
    """Finds functions by the names that dumps give them.

    Args:
        tables: names of functions by the prefix of their records; a dotted name lies in a submodule, and is recorded
            under its last part.
        own: functions of the user by prefix and name, beside those of torch.
        custom: modules of the user by prefix.
    """

    def __init__(
        self,
        tables: Iterable[Mapping[str, Iterable[str]]],
        own: Mapping[tuple[str, str], Callable[..., Any]] | None = None,
        custom: Mapping[str, Any] | None = None,
    ) -> None:
        self._names: dict[tuple[str, str], list[str]] = {}
        for table in tables:
            for prefix, names in table.items():
                for name in names:
                    self._names.setdefault((prefix, name.rpartition(".")[2]), []).append(name)
        self._own, self._custom = dict(own or {}), dict(custom or {})

    def expression(self, prefix: str, api: str) -> str:
        """Return the expression that names the likeliest function, such as ``torch.nn.functional.linear``.

        Raises:
            CannotReplayError: there is none, or it is a function of the user.
        """
        self.candidates(prefix, api)
        if prefix in _NAMESPACES:
            return f"torch.ops.{_NAMESPACES[prefix]}.{api}"
        if prefix not in _EXPRESSIONS or (prefix, api) in self._own:
            raise CannotReplayError(f"{prefix}.{api} is no function that a script can name")
        return f"{_EXPRESSIONS[prefix]}.{self._sorted_names(prefix, api)[0]}"

    def _sorted_names(self, prefix: str, api: str) -> list[str]:
        return sorted(self._names.get((prefix, api), ()), key=lambda name: name.count("."))

    def candidates(self, prefix: str, api: str) -> list[Callable[..., Any]]:
        """Return the functions that are recorded as ``PREFIX.API``, the likeliest first.

        Raises:
            CannotReplayError: there is none.
        """
        if (prefix, api) in self._own:
            return [self._own[prefix, api]]
        if function := find_custom(self._custom, prefix, api):
            return [function]
        if prefix in _NAMESPACES:
            return [_operator(_NAMESPACES[prefix], api)]
        found = []
        for name in self._sorted_names(prefix, api):
            holder, attribute = find_holder(OWNERS.get(prefix), name)
            function = getattr(holder, attribute, None)
            if callable(function):
                found.append(function)
        if not found:
            raise CannotReplayError(f"{prefix}.{api} is no function that msprobe records of this version of torch")
        return found


def _operator(namespace: str, api: str) -> Callable[..., Any]:
    """Return an operator of ``torch.ops``: ``add``, or ``add.Tensor`` with its overload."""
    name, _, overload = api.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name.isidentifier() else None
    found = packet if not overload else getattr(packet, overload, None)
    if not isinstance(found, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
        raise CannotReplayError(f"torch.ops.{namespace} has no operator {api}")
    return found


def is_random(prefix: str, api: str) -> bool:
    """Return whether a function draws random numbers: torch marks such operators by a tag."""
    if api in _DRAWN_INSIDE:
        return True
    packet = getattr(torch.ops.aten, api.partition(".")[0], None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in packet.overloads())
