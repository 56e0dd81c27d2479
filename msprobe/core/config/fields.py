"""The types of single fields of the configuration.

Models are strict and frozen. Strict means that ``"true"`` is no bool and ``"3"`` no number; but any JSON list becomes
a tuple. ``FileForm`` annotates a field whose value differs from its form in the file.

``IntRanges`` is a set of whole numbers that is written as numbers and ranges, ``[0, "3", "5-8"]``: it selects ranks and
steps. A range is kept as its two ends, so ``"0-1000000"`` takes as much memory as ``"0-1"``. The parts below it define
the fields for ranks and steps, for ``data_mode``, and for numbers and paths.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    PlainValidator,
    Strict,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from msprobe.core.host import LOCAL_ONLY, is_url

LOWEST = 0
HIGHEST = 1_000_000
_NUMBER = re.compile(r"\s*([0-9]+)\s*\Z")
_RANGE = re.compile(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*\Z")

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IntRanges:
    """An immutable set of integers from 0 to 1000000. Where it is a filter, the empty set selects everything.

    ``bounds`` holds the inclusive ends of its ranges; they are sorted and merged, so equal sets are equal values.
    """

    bounds: tuple[Bounds, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", _merged(self.bounds))

    @classmethod
    def of(cls, *items: int | str) -> IntRanges:
        """Return the set of ``items``, as in ``IntRanges.of(0, "4-6")``. Raises ValueError as ``parse_item`` does."""
        return cls(tuple(parse_item(item) for item in items))

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_right(self.bounds, (number, HIGHEST)) - 1
        return index >= 0 and self.bounds[index][0] <= number <= self.bounds[index][1]

    def __iter__(self) -> Iterator[int]:
        for low, high in self.bounds:
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.bounds)

    def __bool__(self) -> bool:
        return bool(self.bounds)

    @property
    def last(self) -> int:
        """Return the largest member. Raises ValueError when the set is empty."""
        if not self.bounds:
            raise ValueError("an empty set of ranges has no last member; test it with bool() first")
        return self.bounds[-1][1]

    def to_list(self) -> list[int | str]:
        """Return the shortest list that is read as this set again."""
        return [low if low == high else f"{low}-{high}" for low, high in self.bounds]

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.to_list()) or "all"


def parse_item(item: object) -> Bounds:
    """Return one element of the list, an int, ``"3"`` or ``"4-6"``, as inclusive ends.

    Raises:
        ValueError: the element is something else; the message says what is allowed.
    """
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise ValueError('must be a whole number, "3" or a range like "3-5"')
    low, high = (item, item) if isinstance(item, int) else _ends(item)
    if not (LOWEST <= low <= HIGHEST and LOWEST <= high <= HIGHEST):
        raise ValueError(f"must lie between {LOWEST} and {HIGHEST}")
    if low > high:
        raise ValueError(f'the left end is greater than the right one; write "{high}-{low}"')
    return low, high


def _ends(text: str) -> Bounds:
    if number := _NUMBER.match(text):
        return _whole(number[1]), _whole(number[1])
    if ends := _RANGE.match(text):
        return _whole(ends[1]), _whole(ends[2])
    raise ValueError('text must have the form "3" or "3-5"')


def _whole(digits: str) -> int:
    # Python refuses to convert thousands of digits; so long a number is out of range anyway.
    return int(digits) if len(digits.lstrip("0")) <= len(str(HIGHEST)) else HIGHEST + 1


def _merged(bounds: Iterable[Bounds]) -> tuple[Bounds, ...]:
    merged: list[Bounds] = []
    for low, high in sorted(bounds):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


class ConfigModel(BaseModel):
    """Base of every part of the configuration. Unknown keys are reported elsewhere, as warnings."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", populate_by_name=True)


@dataclass(frozen=True)
class FileForm:
    """Annotate a field whose value in the file differs from the value of the model.

    Args:
        form: the type of the value in the file; errors inside it carry the index of the element.
        keep: converts the value of the file to that of the model.
        write: converts the value of the model back.
    """

    form: Any
    keep: Callable[[Any], Any]
    write: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler.generate_schema(self.form)
        kept = core_schema.no_info_after_validator_function(self.keep, inner)
        back = core_schema.plain_serializer_function_ser_schema(self.write)
        return core_schema.no_info_before_validator_function(self._rewrite, kept, serialization=back)

    def _rewrite(self, value: Any) -> Any:
        """Accept a value of the model's own type, from Python code, wherever the form of the file is accepted."""
        return self.write(value) if isinstance(value, IntRanges | frozenset) else value


Names = Annotated[tuple[str, ...], Strict(False)]

# ---- ranks and steps

_RangeItem = Annotated[
    Bounds,
    PlainValidator(parse_item),
    WithJsonSchema({
        "anyOf": [
            {"type": "integer", "minimum": LOWEST, "maximum": HIGHEST},
            {"type": "string", "pattern": r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?$"},
        ]
    }),
]


def _range_items(value: Any) -> Any:
    """Return a Python ``range`` with step 1 as one item, and any other range as a list of numbers."""
    if isinstance(value, range):
        return [f"{value[0]}-{value[-1]}"] if value.step == 1 and value and value[0] >= 0 else list(value)
    return value


Ranges = Annotated[
    IntRanges,
    FileForm(
        form=Annotated[tuple[_RangeItem, ...], Strict(False), BeforeValidator(_range_items)],
        keep=IntRanges,
        write=IntRanges.to_list,
    ),
]

# ---- data_mode

_PHASES = frozenset({"forward", "backward"})
_SIDES = frozenset({"input", "output"})
ALL_FLOWS: frozenset[str] = _PHASES | _SIDES


class Flows(frozenset[str]):
    """The selected phases and sides, and how they were ``written``: two together may be all."""

    written: tuple[str, ...] = ()


def full_data_mode(written: tuple[str, ...]) -> Flows:
    """Return the selected phases and sides; without a phase both are selected, without a side both.

    Raises:
        ValueError: "all" is combined with others, or there are more than four entries.
    """
    if "all" in written and len(written) > 1:
        raise ValueError('"all" cannot be combined with others; write ["all"] or leave "all" out')
    if len(written) > len(ALL_FLOWS):
        raise ValueError(f"at most {len(ALL_FLOWS)} entries are allowed; name each one once")
    chosen = frozenset(written) - {"all"}
    flows = Flows((chosen & _PHASES or _PHASES) | (chosen & _SIDES or _SIDES))
    flows.written = written
    return flows


def _written_data_mode(flows: frozenset[str]) -> list[str]:
    return ["all"] if flows == ALL_FLOWS else sorted(flows)


DataMode = Annotated[
    frozenset[str],
    FileForm(
        form=Annotated[tuple[Literal["all", "forward", "backward", "input", "output"], ...], Strict(False)],
        keep=full_data_mode,
        write=_written_data_mode,
    ),
]

# ---- numbers and texts


def _difference_count(value: int) -> int:
    if value != -1 and value <= 0:
        raise ValueError("must be -1 (no limit) or greater than 0")
    return value


Count = Annotated[
    int,
    AfterValidator(_difference_count),
    WithJsonSchema({"anyOf": [{"const": -1}, {"type": "integer", "minimum": 1}]}),
]

_MAX_PATH_BYTES = 4096
_MAX_PART_BYTES = 255


def _usable_path(value: str) -> str:
    if is_url(value):
        raise ValueError(f"is a URL; {LOCAL_ONLY}")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
        raise ValueError("must not contain NUL or other control characters")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("must not contain half of a surrogate pair, which no file name has") from None
    if len(value.encode("utf-8", "surrogatepass")) > _MAX_PATH_BYTES:
        raise ValueError(f"is longer than {_MAX_PATH_BYTES} bytes; use a shorter path")
    if any(len(part.encode("utf-8", "surrogatepass")) > _MAX_PART_BYTES for part in value.split("/")):
        raise ValueError(f"has a file or directory name longer than {_MAX_PART_BYTES} bytes; use a shorter name")
    return value


PathText = Annotated[str, AfterValidator(_usable_path)]
