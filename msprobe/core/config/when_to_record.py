"""Keys that say when something is recorded and how much: steps kept in memory, samples, budgets of disk and time."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from msprobe.core.config.fields import ConfigModel

ReasonKind = Literal["nan", "spike", "alert", "trigger", "exception"]
REASONS: tuple[ReasonKind, ...] = get_args(ReasonKind)
_UNITS = {"": 1, **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)} | {"b": 1}
_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kmgt]?i?b?)\s*\Z", re.IGNORECASE)


class RingSettings(ConfigModel):
    """Keep the last steps in memory, and write them when there is a reason to."""

    steps: int = Field(default=3, ge=1, description="How many finished steps are kept before the present one.")
    megabytes: int = Field(default=256, ge=1, description="Memory for all kept records; the oldest step goes first.")
    on: Annotated[tuple[ReasonKind, ...], Strict(False), Field(min_length=1)] = Field(
        default=REASONS,
        description="What makes the steps be written: NaN, a spike, an alert of the monitor, trigger(), an exception.",
    )
    cool_down: int = Field(
        default=100, ge=0, description="For how many steps a kind of reason that has written writes nothing again."
    )
    all_ranks: bool = Field(
        default=True, description="A reason on one rank writes the steps of all ranks that have the same dump_path."
    )


class SampleSettings(ConfigModel):
    """Record a part of the steps and of the calls."""

    every: int = Field(default=1, ge=1, description="Record the steps whose number is a multiple of this.")
    share: float = Field(
        default=1.0, gt=0.0, le=1.0, description="The share of calls that is recorded, chosen by their names."
    )


def parse_size(value: Any) -> Any:
    """Return a number of bytes for a text such as ``10GB`` or ``512 MiB``; other values as they are.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    written = _SIZE.match(value)
    factor = None if written is None else _UNITS.get(written[2].lower())
    if written is None or factor is None:
        raise ValueError('must be a number of bytes, or a text such as "10GB" or "512MiB"')
    return int(float(written[1]) * factor)


ByteCount = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(parse_size),
    WithJsonSchema({
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kmgtKMGT]?[iI]?[bB])?\s*$"},
        ]
    }),
]
"""A number of bytes, in the file also as a text with a unit."""

_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(s|min|h|d)?\s*\Z")


def parse_seconds(value: Any) -> Any:
    """Return a number of seconds for a text such as ``90s``, ``10 min`` or ``2h``; other values as they are.

    Raises:
        ValueError: the text is no duration.
    """
    if not isinstance(value, str):
        return value
    written = _DURATION.match(value)
    if written is None:
        raise ValueError('must be a number of seconds, or a text such as "90s", "10min" or "2h"')
    return float(written[1]) * _SECONDS[written[2] or ""]


Seconds = Annotated[
    float,
    Field(gt=0.0, le=3.0e8, allow_inf_nan=False),
    BeforeValidator(parse_seconds),
    WithJsonSchema({
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 3.0e8},
            {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(s|min|h|d)?\s*$"},
        ]
    }),
]
"""A number of seconds, in the file also as a text with a unit."""
