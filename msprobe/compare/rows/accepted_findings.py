"""Differences that the user accepts, and what became of them: parts of the answer of a comparison.

Plain dataclasses as those of ``rows.summary``, apart from them because most comparisons accept none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Literal

from msprobe.compare.rows.summary import KindText

StateText = Literal["used", "unused", "expired"]


@dataclass(frozen=True, slots=True)
class AcceptedDifference:
    """A difference that is accepted.

    ``finding`` is the kind of a first divergence. ``place`` is the name of the call on either side, as it is printed,
    or its module; ``*`` stands for any text, ``?`` for one character. ``reason`` says why it is accepted. ``slot`` is
    the place inside the call, such as ``output.0``; ``step`` and ``rank`` are numbers and ranges such as ``0-2,5``.
    ``at_most`` is the largest difference of a value that is accepted, in units of its tolerance. ``expires`` is the
    last day on which the entry counts, as ``YYYY-MM-DD``.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    finding: KindText
    place: str
    reason: str
    slot: str | None = None
    step: str | int | None = None
    rank: str | int | None = None
    at_most: float | None = None
    expires: str | None = None

    @property
    def is_expired(self) -> bool:
        """Return whether the last day of the entry is over."""
        return self.expires is not None and date.today() > date.fromisoformat(self.expires)

    @property
    def text(self) -> str:
        """The finding and its place in words."""
        more = ((name, getattr(self, name)) for name in ("slot", "step", "rank"))
        return f"{self.finding} at {self.place}" + "".join(f", {name} {value}" for name, value in more if value)

    @property
    def said(self) -> dict[str, Any]:
        """The keys that the entry has, in the order of the file."""
        order = "finding", "place", "slot", "step", "rank", "at_most", "reason", "expires"
        return {name: value for name in order if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class AcceptedFinding:
    """A finding that an entry has accepted: the number of the entry, and the finding in words."""

    entry: int
    name: str


@dataclass(slots=True)
class AcceptedUse:
    """What became of one entry: ``used`` with the number of findings that it accepted and the first of them."""

    entry: AcceptedDifference
    state: StateText = "unused"
    count: int = 0
    first: str = ""

    @property
    def text(self) -> str:
        """The entry and what became of it, in one sentence."""
        until = f", until {self.entry.expires}" if self.entry.expires else ""
        about = f"{self.entry.text} ({self.entry.reason}{until})"
        if self.state == "used":
            times = "once" if self.count == 1 else f"{self.count} times"
            return f"{about}: used {times}, first for {self.first}"
        return f"{about}: {'expired, it accepts nothing any more' if self.state == 'expired' else 'not used'}"
