"""``msprobe noise``: learn from reruns of one program how much two runs of it normally differ.

learned = learn([Path("run1"), Path("run2"), Path("run3")])
learned.profile.write(Path("noise.json"))           # for msprobe compare --noise
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps
from msprobe.compare.coverage import coverage_of
from msprobe.compare.differences.noise_profile import ModeText, NoiseProfile, Spread
from msprobe.compare.dump_pairs import locate
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.entries import Absence
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.host import paused_gc
from msprobe.core.store.reader import Dump, damage_named, load_dump
from msprobe.numerics.verdict import RowKind

_SHOWN = 5
PERTURBED = 4.0
"""How many times further than in reruns a value may move where parameters and inputs were moved (key ``perturb``): the
roundings of the program itself, of which each call makes one more, are the same in all of these runs."""


@dataclass(slots=True)
class Learned:
    """The result of learning.

    Args:
        profile: the normal spread of values.
        problems: what differs between reruns and is no noise: calls and shapes.
        lost: what records say that they hold and what could not be compared (``Coverage.lost``): no spread is known.
    """

    profile: NoiseProfile
    problems: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the result in words."""
        spreads = [spread for spread in self.profile.spreads if _size(spread) > 0.0]
        if not spreads:
            which = "every value that could be compared" if self.lost else "every value"
            lines = [f"Reruns agree in {which}: only rounding will count as normal"]
        else:
            worst = max(spreads, key=_size)
            share = f"{len(spreads)} of {len(self.profile.spreads)} values vary between reruns"
            lines = [f"{share}; most of all {worst.place} of {worst.call} ({worst.dtype}): {_size(worst):.2g}"]
        return [*lines, *_listed("Not compared", self.lost), *_listed("Not noise", self.problems)]


def _listed(what: str, sentences: list[str]) -> list[str]:
    """Return the first sentences as lines, and how many more there are."""
    rest = len(sentences) - _SHOWN
    return [f"{what}: {sentence}" for sentence in sentences[:_SHOWN]] + (
        [f"{what}: ... and {rest} more"] if rest > 0 else []
    )


def _size(spread: Spread) -> float:
    """Return the largest relative difference of a spread."""
    return max(spread.element, spread.mean, spread.norm)


def learn(runs: Sequence[Path]) -> Learned:
    """Learn the normal spread from every pair of runs, step by step and rank by rank.

    Raises:
        ReadError: a path holds no dump, or one is damaged.
        NotComparableError: runs have nothing in common, hold checksums, or differ in kind.
        MsprobeException: fewer than two runs.
    """
    if len(runs) < 2:
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"noise: got {len(runs)} run; give two or more dumps of the same program",
        )
    result: Learned | None = None
    problems: dict[str, None] = {}
    lost: dict[str, None] = {}
    perturbed = False
    for comparison in _comparisons(runs, problems):
        if result is None:
            result = Learned(NoiseProfile(_mode(comparison), len(runs)))
        perturbed = perturbed or any(dump.header.get("perturbed") is not None for dump in _sides(comparison))
        result.profile.learn(comparison.table, comparison.measured, comparison.golden)
        problems.update(dict.fromkeys(_structural_differences(comparison)))
        lost.update(dict.fromkeys(coverage_of(comparison).lost))
    assert result is not None  # locate gives at least one pair
    result.problems, result.lost = list(problems), list(lost)
    if perturbed:
        result.profile.perturbed = True
        result.profile.limit *= PERTURBED
    return result


def _sides(comparison: Comparison) -> tuple[Dump, Dump]:
    return comparison.target, comparison.golden


def _comparisons(runs: Sequence[Path], problems: dict[str, None]) -> Iterator[Comparison]:
    """Yield the comparisons of all pairs of runs; ``problems`` collects what could not be paired."""
    for first, second in combinations(runs, 2):
        located = locate(first, second)
        problems.update(dict.fromkeys(located.unpaired))
        history: dict[str, StepHistory] = {}
        for left, right in located.pairs:
            with paused_gc(), damage_named(left, right):
                comparison = compare_dumps(
                    load_dump(left), load_dump(right), history=history.setdefault(left.label, StepHistory())
                )
            yield comparison


_ONE_SIDED = Absence.OTHER_CODE, Absence.NOT_SHOWN


def _mode(comparison: Comparison) -> ModeText:
    if comparison.mode is Mode.CHECKSUM:
        raise NotComparableError("checksums have no spread; collect reruns with summary_mode statistics")
    return "tensor" if comparison.mode is Mode.TENSOR else "statistics"


def _structural_differences(comparison: Comparison) -> list[str]:
    """Return the entries that differ in more than values, each with what differs."""
    differences = []
    kinds = comparison.judged.kind
    for number, pair in enumerate(comparison.table.entries):
        rows = slice(int(comparison.table.starts[number]), int(comparison.table.starts[number + 1]))
        if pair.absence in _ONE_SIDED:
            kind = RowKind.MISSING_IN_TARGET if pair.target is None else RowKind.MISSING_IN_GOLDEN
        elif comparison.row_levels.diverging[number] and (kinds[rows] > RowKind.VALUE).any():
            kind = RowKind(int(kinds[rows].max()))
        else:
            continue
        differences.append(f"{pair.name}: {kind.name.lower()}")
    return differences
