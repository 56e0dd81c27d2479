"""The JSON document of an accuracy pre-check (``schemas/acc_check.schema.json``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

StatusText = Literal["pass", "warning", "error", "SKIP"]


@dataclass(frozen=True, slots=True)
class FailingValue:
    """A result or gradient that does not pass: its name in the table of details, and why it does not."""

    name: str
    status: StatusText
    dtype: str
    shape: list[int]
    message: str


@dataclass(frozen=True, slots=True)
class FailingCall:
    """A call that does not pass: the status of both passes, and where the program makes it."""

    name: str
    status: StatusText
    forward: str
    backward: str
    message: str
    source: str
    stack: list[str]
    values: list[FailingValue]


@dataclass(frozen=True, slots=True)
class PrecheckDocument:
    """The whole check: its verdict, how many calls have each status, what fails, and what was skipped, with reasons.

    ``result`` and ``details`` are the paths of the two tables.
    """

    verdict: str
    dump: str
    device: str
    policy: str
    counts: dict[str, int]
    failing: list[FailingCall]
    skipped: dict[str, str]
    result: str
    details: str


def precheck_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    return TypeAdapter(PrecheckDocument).json_schema(mode="serialization")
