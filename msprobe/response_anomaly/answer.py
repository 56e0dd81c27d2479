"""One answer of a language model: its tokens as bytes, their log-probabilities, and what was found odd in it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

KINDS = {0: "ok", 1: "rare character", 2: "garbled", 3: "repetition", 4: "NaN"}
"""The documented types."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something odd in an answer.

    Attributes:
        kind: a key of ``KINDS``.
        start, end: the first token, and the one behind the last.
        reason: why, in words.
    """

    kind: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True)
class Answer:
    """What a model wrote.

    Attributes:
        ids: the number of each token, or its text where no number is known.
        pieces: the bytes of each token; None where nobody knows them. Several tokens may share a character.
        candidates: for each token the log-probabilities of the most probable tokens, by the same key as ``ids``; None
            where they were not recorded. Their length is that of ``ids``.
        groups: a category for each id, where only a map of categories is known instead of texts.
        unit: what the positions count: ``token``, or ``character`` where only a text was given.
    """

    ids: Sequence[Any]
    pieces: Sequence[bytes] | None = None
    candidates: Sequence[Mapping[Any, float]] | None = None
    groups: Mapping[Any, int] | None = None
    unit: str = "token"

    @cached_property
    def text(self) -> str:
        """The text; a byte that is not UTF-8 is one lone surrogate, so that every byte has its place."""
        return b"".join(self.pieces or ()).decode("utf-8", "surrogateescape")

    @cached_property
    def _offsets(self) -> tuple[list[int], list[int]]:
        """The first byte of each character, and the byte behind each token."""
        widths = [1 if "\ud800" <= c <= "\udfff" else len(c.encode()) for c in self.text]
        ends = list(itertools.accumulate(len(piece) for piece in self.pieces or ()))
        return [0, *itertools.accumulate(widths)], ends

    def token_of(self, character: int) -> int:
        """Return the token that holds the first byte of a character."""
        starts, ends = self._offsets
        return min(bisect.bisect_right(ends, starts[character]), len(ends) - 1)

    def tokens_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of tokens that hold the characters from ``start`` up to ``end``."""
        return self.token_of(start), self.token_of(max(end - 1, start)) + 1

    @classmethod
    def of_text(cls, text: str) -> Answer:
        """Return the answer of a text without tokens: each character stands for one."""
        pieces = [c.encode("utf-8", "surrogateescape" if "\udc80" <= c <= "\udcff" else "replace") for c in text]
        return cls(ids=list(text), pieces=pieces, unit="character")
