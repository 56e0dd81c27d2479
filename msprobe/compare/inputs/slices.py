"""Which part of its tensors a side is compared by: ``--target-slice`` and ``--golden-slice``.

    0/8=2             row 2 of axis 0, in tensors where that axis has length 8
    0/8=2,1/32=:17    of these, the first 17 of axis 1
    */32=-17:         the last 17 of every axis of length 32
    0=4:9             rows 4 to 8 of axis 0, in tensors of any length from 9 on

The grammar, without blanks:

    slices = item {"," item}
    item   = ("*" | axis) ["/" length] "=" (index | [begin] ":" [end])

``axis``, ``index``, ``begin`` and ``end`` count from 0, or from the end if they are negative; ``length`` is at least 1.
``*`` needs a length. An item cuts the axis that it names, where that has its length and the range in it is not empty;
other tensors stay whole. The first item that fits an axis cuts it. An axis stays when one index of it is taken.

``parse_slices`` makes one immutable value, ``TensorSlices``, of a text, or of items as in ``slice`` of the
configuration. Whoever knows the rows of a request can make the same value:
``TensorSlices((AxisSlice(0, 45, 12, 20),))``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import MsprobeException

_NUMBER = r"-?\d+"
_ITEM = (
    rf"(?:(?P<any>\*)|(?P<axis>{_NUMBER}))(?:/(?P<length>\d+))?="
    rf"(?:(?P<index>{_NUMBER})|(?P<begin>{_NUMBER})?(?P<range>:)(?P<end>{_NUMBER})?)"
)
_FORM = "give items such as 0/8=2 (row 2 of axis 0, where it has length 8) or */32=:17, separated by commas"
_KEYS = {"dim", "size", "begin", "end"}
_LONGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """A range of one axis.

    Attributes:
        axis: the axis, from the end if negative; None for every axis of the length.
        length: the length that the axis must have; None for any.
        begin: the first index, from the end if negative.
        end: the index after the last one, in the same way; None for the end of the axis.
    """

    axis: int | None
    length: int | None
    begin: int = 0
    end: int | None = None

    def __str__(self) -> str:
        """Return the item in the grammar of the module."""
        length = "" if self.length is None else f"/{self.length}"
        end = "" if self.end is None else self.end
        return f"{'*' if self.axis is None else self.axis}{length}={self.begin or ''}:{end}"

    def of(self, axis: int, shape: tuple[int, ...]) -> slice | None:
        """Return the range of an axis of a tensor of this shape; None where the axis stays whole."""
        if self.axis is not None and (self.axis if self.axis >= 0 else self.axis + len(shape)) != axis:
            return None
        if self.length is not None and self.length != shape[axis]:
            return None
        begin, end, _ = slice(self.begin, self.end).indices(shape[axis])
        outside = max(self.begin, -self.begin, self.end or 0, -(self.end or 0)) > shape[axis]
        return None if outside or begin >= end else slice(begin, end)


@dataclass(frozen=True, slots=True)
class TensorSlices:
    """The ranges of axes by which the tensors of one side are compared; without items they stay whole."""

    axes: tuple[AxisSlice, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything is cut."""
        return bool(self.axes)

    def __str__(self) -> str:
        """Return the items in the grammar of the module."""
        return ",".join(map(str, self.axes))

    def of(self, shape: tuple[int, ...]) -> tuple[slice, ...] | None:
        """Return the range of each axis of a tensor of this shape; None where the tensor stays whole."""
        ranges = tuple(
            next((cut for item in self.axes if (cut := item.of(axis, shape)) is not None), slice(0, length))
            for axis, length in enumerate(shape)
        )
        return None if all(cut == slice(0, length) for cut, length in zip(ranges, shape, strict=True)) else ranges


WHOLE = TensorSlices()
"""No slices: tensors stay whole."""


def sliced_shape(ranges: tuple[slice, ...]) -> tuple[int, ...]:
    """Return the shape of what ``TensorSlices.of`` takes."""
    return tuple(one.stop - one.start for one in ranges)


def cut_tensor(tensor: NDArray[Any], ranges: tuple[slice, ...] | None) -> NDArray[Any]:
    """Return the part of a tensor; the tensor itself where its file has another shape than its record."""
    fits = ranges is not None and tensor.ndim == len(ranges)
    if not fits or any(one.stop > length for one, length in zip(ranges or (), tensor.shape, strict=True)):
        return tensor
    return np.ascontiguousarray(tensor[ranges])


def parse_slices(given: Any, what: str) -> TensorSlices:
    """Return the slices of a text, of items as in ``slice`` of the configuration, or of None (whole tensors).

    Args:
        given: such as ``"0/8=2"`` or ``[{"dim": 0, "size": 8, "begin": 2, "end": 3}]``.
        what: the name of the option, for messages.

    Raises:
        MsprobeException: it is neither, an item can fit no tensor, or one axis is given twice.
    """
    if given is None or isinstance(given, TensorSlices):
        return given or WHOLE
    if isinstance(given, str):
        items = tuple(_of_text(text, what) for text in given.split(","))
    elif isinstance(given, (list, tuple)) and given:
        items = tuple(_of_values(values, what) for values in given)
    else:
        raise _wrong(what, repr(given), _FORM)
    for number, item in enumerate(items):
        problem = "".join(_problems(item))
        if not problem and any((item.axis, item.length) == (other.axis, other.length) for other in items[:number]):
            problem = "this axis is given twice"
        if problem:
            raise _wrong(what, repr(str(item)), problem)
    return TensorSlices(items)


def _of_text(text: str, what: str) -> AxisSlice:
    found = re.fullmatch(_ITEM, text.strip(), re.ASCII)
    if found is None:
        raise _wrong(what, repr(text), _FORM)
    numbers = {
        name: None if found[name] is None else int(found[name]) for name in ("axis", "length", "index", "begin", "end")
    }
    if any(abs(number or 0) > _LONGEST for number in numbers.values()):
        raise _wrong(what, repr(text), "no axis is as long")
    index = numbers["index"]
    if index is not None:
        return AxisSlice(numbers["axis"], numbers["length"], index, None if index == -1 else index + 1)
    return AxisSlice(numbers["axis"], numbers["length"], numbers["begin"] or 0, numbers["end"])


def _of_values(values: Any, what: str) -> AxisSlice:
    if isinstance(values, AxisSlice):
        return values
    numbers = values.values() if isinstance(values, Mapping) else ()
    if not numbers or "dim" not in values or set(values) - _KEYS or any(type(number) is not int for number in numbers):
        raise _wrong(what, repr(values), f"give numbers for dim and for some of {', '.join(sorted(_KEYS - {'dim'}))}")
    return AxisSlice(values["dim"], values.get("size"), values.get("begin", 0), values.get("end"))


def _problems(item: AxisSlice) -> Iterator[str]:
    """Yield why an item can fit no tensor; at most one reason."""
    length = item.length
    if item.axis is None and length is None:
        yield "* needs a length, such as */32=:17"
    elif length is not None and length < 1:
        yield "a length is at least 1"
    elif length is not None and not _fits(item, length):
        yield f"an axis of length {length} has no such range"
    elif item.end is not None and (item.begin < 0) == (item.end < 0) and item.begin >= item.end:
        yield "the range is empty"


def _fits(item: AxisSlice, length: int) -> bool:
    return AxisSlice(None, length, item.begin, item.end).of(0, (length,)) is not None


def _wrong(what: str, given: str, problem: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"{what}: {given}: {problem}")
