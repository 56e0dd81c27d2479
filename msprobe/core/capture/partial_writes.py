"""Which elements of a memory are written, where a program writes it part by part.

Between ``out = torch.empty(4, 8)`` and the last turn of a loop with ``out[i] = ...``, some rows have values and the
others have none; the same holds for a cache of which each call fills the next part. ``WRITERS`` has the functions of
which it is known what they write, by the names that PyTorch and MindSpore share, each with what sets the flags of the
elements that it writes. What any other function writes is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msprobe.core.interruption import let_through

LARGEST = 1 << 26
"""Elements of a memory of which it is remembered which are written; parts of a larger one count as the whole."""


class Flags(Protocol):
    """One flag per element of a tensor that is written in part; every method takes arguments of the program's call."""

    def set_all(self) -> None:
        """Set every flag."""
        ...

    def set_at(self, index: Any) -> None:
        """Set the flags that ``index`` chooses, as ``tensor[index]`` does."""
        ...

    def set_along(self, dim: int, index: Any) -> None:
        """Set the flags at the places ``index`` of dimension ``dim``."""
        ...

    def set_masked(self, mask: Any) -> None:
        """Set the flags where ``mask`` is true."""
        ...

    def set_scattered(self, dim: int, index: Any) -> None:
        """Set the flags to which ``scatter_`` along ``dim`` writes."""
        ...


def _whole(flags: Flags, *_args: Any, **_kwargs: Any) -> None:
    flags.set_all()


def _at(flags: Flags, index: Any, _value: Any) -> None:
    flags.set_at(index)


def _put(flags: Flags, indices: Sequence[Any], values: Any, accumulate: bool = False) -> None:
    if accumulate:
        raise ValueError
    flags.set_at(tuple(slice(None) if index is None else index for index in indices))


def _along(flags: Flags, dim: int, index: Any, *_values: Any, **_named: Any) -> None:
    flags.set_along(dim, index)


def _masked(flags: Flags, mask: Any, *_values: Any, **_named: Any) -> None:
    flags.set_masked(mask)


def _scattered(flags: Flags, dim: int, index: Any, *_values: Any, **named: Any) -> None:
    if "reduce" in named:
        raise ValueError
    flags.set_scattered(dim, index)


WRITERS: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(("copy_", "fill_", "zero_"), _whole),
    **dict.fromkeys(("normal_", "uniform_", "random_", "bernoulli_", "exponential_"), _whole),
    **dict.fromkeys(("cauchy_", "geometric_", "log_normal_"), _whole),
    "__setitem__": _at,
    "index_put_": _put,
    "index_copy_": _along,
    "index_fill_": _along,
    "masked_fill_": _masked,
    "masked_scatter_": _masked,
    "scatter_": _scattered,
}
"""Functions that write their first argument without reading it, with what marks the elements that they write."""


def writes_all(api: str) -> bool:
    """Return whether a call of ``api`` writes every element of its first argument."""
    return WRITERS[api] is _whole


def mark(flags: Flags, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Set the flags of what a call of ``api`` has written; return False where this is not known."""
    try:
        WRITERS[api](flags, *args[1:], **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:  # written in a way that flags do not take
        let_through(error)
        return False
    return True
