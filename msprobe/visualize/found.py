"""What the comparisons of a job came to. Building a single graph needs this and nothing else of comparing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Found:
    """What the comparisons of a job came to, for the facts of its database."""

    task: str | None = None
    refused: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    unapplied: list[list[tuple[str, str, str]]] = field(default_factory=list)
    divergences: list[tuple[tuple[int, int], dict[str, Any]]] = field(default_factory=list)
