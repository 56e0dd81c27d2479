"""Results of modules of which the ranks hold summands, and where a run goes on with them before they are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msprobe.compare.parallel.identity import Key
from msprobe.core.naming import Phase
from msprobe.trace.leaves import NOT_ADDED, PIECES

Digest = tuple[float, ...]
"""Numbers that tell some summands from others."""


class _Result(NamedTuple):
    key: Key
    record: dict[str, Any]
    digest: Digest


@dataclass(slots=True)
class PartialSums:
    """Results of module calls of which the ranks hold summands, and the summands that calls were given."""

    results: list[_Result] = field(default_factory=list)
    given: set[Digest] = field(default_factory=set)

    def add(self, key: Key, record: dict[str, Any], digest: Digest, *, received: bool) -> None:
        """Remember a merged value; ``digest`` tells which summands it has, ``received`` whether a call was given it."""
        if received:
            self.given.add(digest)
        else:
            self.results.append(_Result(key, record, digest))

    def mark(self) -> None:
        """Mark the results with which other modules went on."""
        for result in self.results:
            if result.digest in self.given:
                result.record[PIECES] = NOT_ADDED

    def makers(self, names: Mapping[Key, str]) -> dict[str, str]:
        """Return the forward calls whose results are summands, in the order of execution, each with the first call that
        returned the same ones: a module around it passes them on."""
        first: dict[Digest, str] = {}
        forward = [result for result in self.results if result.key.phase is Phase.FORWARD]
        return {names[result.key]: first.setdefault(result.digest, names[result.key]) for result in forward}
