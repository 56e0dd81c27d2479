"""What is asked of a worker and what it answers: plain values that can travel as JSON to another process or machine.

One task is one rank with all its steps, because the verdict of a step uses what the step before showed (which values
are only rounding noise). Ranks know nothing of each other, so their tasks are independent.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pydantic_core import from_json, to_json

from msprobe.analyze.communication import Exchange
from msprobe.analyze.rank_order import RankFinding
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.inputs.locations import is_path, opened
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.parallel.layout import Layout, Replica
from msprobe.compare.rows.summary import Counts, FirstDivergence
from msprobe.core.store.reader import Place


@dataclass(frozen=True, slots=True)
class PairOptions:
    """What is made of each pair. ``output`` and ``pages`` are folders, None where nothing of the kind is wanted;
    ``stamp`` is the end of the names of result tables. ``processes`` are those that may share a rank; without
    ``every_page`` only pairs that diverged leave a page; ``alone`` says that there is one pair."""

    policy: Policy
    mapping: MappingOptions
    stamp: str
    metrics: tuple[str, ...] = ()
    noise: str | None = None
    config: str | None = None
    output: str | None = None
    xlsx: bool = False
    several_steps: bool = False
    by_file: bool = False
    failures: bool = False
    pages: str | None = None
    processes: int = 1
    every_page: bool = True
    alone: bool = False


@dataclass(frozen=True, slots=True)
class RankTask:
    """The pairs of one rank in the order of their steps; ``order`` numbers them among all pairs of the comparison."""

    pairs: list[tuple[Place, Place]]
    order: list[int]
    options: PairOptions


@dataclass(frozen=True, slots=True)
class Failure:
    """An entry with a row of level error: its name and the message of the first such row."""

    name: str
    message: str


@dataclass(slots=True)
class PairOutcome:
    """The answer for one pair.

    ``problem`` says why it was not compared (then counts are zero), ``unreadable`` that a document is damaged.
    ``entry`` is the position of ``first_divergence`` in the pair, ``finding`` what orders the ranks. ``checked`` is set
    when a value could be checked on both sides. ``partial`` are those of the notes that say what one side lacks as a
    whole. ``failures`` are the first ones only, ``failed`` is the number of all.
    ``page`` is a file with the table for the HTML report, ``unapplied`` the entries of mappings that fit nothing here
    (see ``alignment.unapplied``).
    """

    order: int
    step: int | None
    label: str
    target: str
    golden: str
    problem: str = ""
    unreadable: bool = False
    counts: Counts = field(default_factory=Counts)
    entry: int | None = None
    first_divergence: FirstDivergence | None = None
    finding: RankFinding | None = None
    checked: bool = False
    notes: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    page: str | None = None
    unapplied: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def place(self) -> str:
        """``step 0, rank1``: how messages name the pair."""
        step = "" if self.step is None else f"step {self.step}"
        return ", ".join(part for part in (step, self.label) if part) or self.target

    @property
    def verdict(self) -> str:
        """``same``, ``diverged`` or ``not_comparable``, for this pair alone."""
        if self.first_divergence is not None:
            return "diverged"
        return "not_comparable" if self.problem or not self.checked else "same"


def task_text(task: RankTask) -> str:
    """The task as JSON."""
    pairs = [[_place_values(place) for place in pair] for pair in task.pairs]
    return _text({"pairs": pairs, "order": task.order, "options": _option_values(task.options)})


def task_of(text: str) -> RankTask:
    """The task that ``task_text`` wrote."""
    content = from_json(text)
    given = content["options"]
    options = {
        **given,
        "policy": Policy(given["policy"]),
        "mapping": _mapping(given["mapping"]),
        "metrics": tuple(given["metrics"]),
    }
    pairs = [(_place(left), _place(right)) for left, right in content["pairs"]]
    return RankTask(pairs, content["order"], PairOptions(**options))


def outcomes_text(outcomes: list[PairOutcome]) -> str:
    """The outcomes as JSON."""
    return _text([asdict(outcome) for outcome in outcomes])


def outcomes_of(text: str) -> list[PairOutcome]:
    """The outcomes that ``outcomes_text`` wrote."""
    return [_outcome(content) for content in from_json(text)]


def _option_values(options: PairOptions) -> dict[str, Any]:
    """Mapping files by absolute path: a worker may stand in another folder."""
    values = {one.name: getattr(options, one.name) for one in fields(options)}
    mapping = {one.name: getattr(options.mapping, one.name) for one in fields(options.mapping)}
    mappings = (name for name, given in mapping.items() if name.endswith("_mapping") and is_path(given))
    return {**values, "mapping": {**mapping, **{name: os.path.abspath(mapping[name]) for name in mappings}}}


def _outcome(content: dict[str, Any]) -> PairOutcome:
    found = content["first_divergence"]
    return PairOutcome(**{
        **content,
        "counts": Counts(**content["counts"]),
        "first_divergence": None if found is None else FirstDivergence(**found),
        "finding": _finding(content["finding"]),
        "unapplied": [tuple(one) for one in content["unapplied"]],
        "failures": [Failure(**failure) for failure in content["failures"]],
    })


def _finding(content: dict[str, Any] | None) -> RankFinding | None:
    if content is None:
        return None
    program = [
        Exchange(one["entry"], tuple(one["gives"]), tuple(one["takes"]), one["waits"]) for one in content["program"]
    ]
    return RankFinding(content["rank"], program, content["entry"], content["after"])


def _mapping(content: dict[str, Any]) -> MappingOptions:
    layouts = {name: Layout(**sizes) for name, sizes in content.items() if name.endswith("_parallel")}
    return MappingOptions(**{**content, **layouts})


def _place_values(place: Place) -> list[Any]:
    values: list[Any] = [str(place.document), place.step, place.kind, place.number]
    if isinstance(place, Replica):
        values.append([[_place_values(one) for one in stage] for stage in place.members])
    return values


def _place(values: list[Any]) -> Place:
    document, step, kind, number, *members = values
    if not members:
        return Place(opened(document), step, kind, number)
    stages = tuple(tuple(_place(one) for one in stage) for stage in members[0])
    return Replica(opened(document), step, kind, number, stages)


def _text(content: Any) -> str:
    return to_json(content, inf_nan_mode="constants").decode()
