"""Which part of a tensor of the whole model a rank holds, as the program declares it (``shard`` of each framework).

What was declared is an attribute of the tensor: it goes with a parameter for as long as that lives, and with an
activation to every record of this very tensor. The records have it under the key ``shard``. Of a parameter of which the
program said nothing, the same key has what its marks tell (``infer_part``). In the same way a tensor that a module was
fed knows how far the live one was from it (key ``fed``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.store.record_walk import FED, SHARD

ATTRIBUTE = "_msprobe_shard"
_INFERRED_ATTRIBUTE = "_msprobe_inferred_shard"
_FED_ATTRIBUTE = "_msprobe_fed"
USED: set[type] = set()
"""The types of the tensors that have one of the attributes: recording looks for them on tensors of no other type."""


def declare(value: Any, tensors: Sequence[Any], dim: int | None, find_ranks: Callable[[], list[int]]) -> None:
    """Note of each of ``tensors`` that has the axis ``dim`` that the ranks of a group hold its parts.

    Args:
        value: what the program named, for the message: one of the tensors, or the module that has them.
        find_ranks: returns the ranks of the group in their order; a group of one rank says nothing.

    Raises:
        MsprobeException: ``dim`` is an axis of none of the tensors.
    """
    fitting = [each for each in tensors if _has_axis(each, dim)]
    if not fitting:
        shapes = ", ".join(str(tuple(each.shape)) for each in tensors) or "no parameters"
        raise shard_error(f"dim={argument_text(dim)} is no axis of {type(value).__name__} ({shapes})")
    ranks = find_ranks()
    if len(ranks) > 1:
        for each in fitting:
            _declare(each, dim, ranks)


def declared(tensor: Any, node: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a tensor, with what was declared of it."""
    parts, fed = getattr(tensor, ATTRIBUTE, None), getattr(tensor, _FED_ATTRIBUTE, None)
    if parts is None:
        parts = getattr(tensor, _INFERRED_ATTRIBUTE, None)
    if parts is not None:
        node[SHARD] = parts
    if fed is not None:
        node[FED] = fed
    return node


def note_fed(tensor: Any, distance: float) -> None:
    """Note of a tensor that a module is fed how far the live one was from it."""
    _set(tensor, _FED_ATTRIBUTE, distance)


def infer_part(parameter: Any, dim: int | None, ranks: list[int] | None) -> None:
    """Note what is known of a parameter without the program saying it; what ``shard`` says comes first.

    Args:
        dim: the axis that is cut; None where each rank holds the whole.
        ranks: those that hold it; None where they are not known.
    """
    if ranks is None or len(ranks) > 1:
        _set(parameter, _INFERRED_ATTRIBUTE, [{"dim": dim, "group": ranks}])


def shard_error(text: str) -> MsprobeException:
    """Return the error of a call of ``shard`` that says nothing usable."""
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"shard: {text}")


def _declare(tensor: Any, dim: int | None, ranks: list[int]) -> None:
    axis = None if dim is None else dim % len(tensor.shape)
    others = [part for part in getattr(tensor, ATTRIBUTE, ()) if part["group"] != ranks]
    _set(tensor, ATTRIBUTE, [*others, {"dim": axis, "group": ranks}])


def _set(tensor: Any, attribute: str, value: Any) -> None:
    setattr(tensor, attribute, value)
    USED.add(type(tensor))


def _has_axis(tensor: Any, dim: Any) -> bool:
    return dim is None or (type(dim) is int and -len(tensor.shape) <= dim < len(tensor.shape))
