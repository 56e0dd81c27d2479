"""The tasks and the answers of workers: plain values that can be sent as JSON to another process or machine.

One task (``RankTask``) is one rank with all its steps, because the verdict of a step uses a result of the step before
(which values are only rounding noise). The tasks of different ranks are independent. The answer is a ``PairOutcome``
per pair of dumps.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json, to_json

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.inputs.locations import is_path, opened
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.parallel.layout import Coordinates, Layout, Replica
from msprobe.compare.rows.summary import AcceptedFinding, Counts, FirstDivergence, OperatorGroup, verdict_text
from msprobe.core.store.reader import Place

if TYPE_CHECKING:
    from msprobe.analyze.rank_order import RankFinding
    from msprobe.compare.inputs.slices import TensorSlices


@dataclass(frozen=True, slots=True)
class PairOptions:
    """How each pair is compared, and which files are written.

    Attributes:
        policy: whose rules judge the rows.
        mapping: what the user said about which entries belong together.
        stamp: the end of the names of result tables.
        metrics, noise, config: as in ``CompareOptions``, with absolute paths.
        accept: the keys of each accepted difference.
        output: the folder of the result tables; None writes none.
        xlsx: write workbooks.
        several_steps: whether the names of tables hold the step.
        by_file: whether a document was given instead of a folder, so that names of tables do not hold the rank.
        failures: collect the entries that failed, for the JUnit report.
        pages: the folder for the parts of the HTML report; None writes none.
        processes: how many processes may share the work of a rank.
        every_page: write the part of every pair; otherwise only of pairs that diverged.
        alone: whether there is only one pair.
        group_by: ``operator`` to count the rows that differ by operator.
    """

    policy: Policy
    mapping: MappingOptions
    stamp: str
    metrics: tuple[str, ...] = ()
    noise: str | None = None
    config: str | None = None
    accept: tuple[dict[str, Any], ...] = ()
    output: str | None = None
    xlsx: bool = False
    several_steps: bool = False
    by_file: bool = False
    failures: bool = False
    pages: str | None = None
    processes: int = 1
    every_page: bool = True
    alone: bool = False
    group_by: str | None = None


class RankTask(NamedTuple):
    """The pairs of one rank in the order of their steps; ``order`` has their numbers among all pairs."""

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

    Attributes:
        order: the number of the pair among all pairs.
        tokens: the positions of the tokens that are compared of a request, such as ``4-7``; "" without a request.
        problem: why it was not compared; the counts are zero then.
        unreadable: whether a document is damaged.
        entry: the position of ``first_divergence`` in the pair.
        finding: what decides which rank diverged first.
        checked: whether a value could be checked on both sides.
        order_blind: whether the order of elements was not compared (``compare/agreement.py``).
        notes: sentences for the user; ``partial`` are those about what was not compared, and ``lost`` those of them
            about data that a record says it holds.
        harmless: sentences about other code and calls that differ without consequence, for runs that did not diverge.
        results: the files that were written.
        failures: the first entries that failed; ``failed`` is the number of all.
        page: the file with this pair's part of the HTML report.
        unused_entries: the entries of mappings that fit nothing in this pair (see ``check_mappings``).
        accepted: the findings that were accepted; ``hidden`` says what could not be seen because of them.
        wrong_modules: every wrong module, where modules were fed the inputs of a good run.
        operators: the rows that differ by operator, where that was asked for.
    """

    order: int
    step: int | None
    label: str
    target: str
    golden: str
    tokens: str = ""
    problem: str = ""
    unreadable: bool = False
    counts: Counts = field(default_factory=Counts)
    entry: int | None = None
    first_divergence: FirstDivergence | None = None
    finding: RankFinding | None = None
    checked: bool = False
    order_blind: bool = False
    notes: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    harmless: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    page: str | None = None
    unused_entries: list[tuple[str, str, str]] = field(default_factory=list)
    accepted: list[AcceptedFinding] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    wrong_modules: list[FirstDivergence] = field(default_factory=list)
    operators: list[OperatorGroup] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Return the words for the pair in messages: ``step 0, rank1``, ``step 0, rank1, tokens 4-7``."""
        step = "" if self.step is None else f"step {self.step}"
        tokens = f"token{'s' if '-' in self.tokens else ''} {self.tokens}" if self.tokens else ""
        return ", ".join(part for part in (step, self.label, tokens) if part) or self.target

    @property
    def verdict(self) -> str:
        """Return ``same``, ``incomplete``, ``diverged`` or ``not_comparable``, for this pair alone."""
        checked = self.checked and not self.problem
        return verdict_text(checked=checked, diverged=self.first_divergence is not None, lost=bool(self.lost))


def task_text(task: RankTask) -> str:
    """Return the task as JSON."""
    pairs = [[_place_values(place) for place in pair] for pair in task.pairs]
    return _json({"pairs": pairs, "order": task.order, "options": _option_values(task.options)})


def task_of(text: str) -> RankTask:
    """Return the task that ``task_text`` wrote."""
    content = from_json(text)
    values = content["options"]
    options = {
        **values,
        "policy": Policy(values["policy"]),
        "mapping": _mapping(values["mapping"]),
        "metrics": tuple(values["metrics"]),
        "accept": tuple(values["accept"]),
    }
    pairs = [(_place(left), _place(right)) for left, right in content["pairs"]]
    return RankTask(pairs, content["order"], PairOptions(**options))


def outcomes_text(outcomes: list[PairOutcome]) -> str:
    """Return the outcomes as JSON."""
    return _json([asdict(outcome) for outcome in outcomes])


def outcomes_of(text: str) -> list[PairOutcome]:
    """Return the outcomes that ``outcomes_text`` wrote."""
    return [_outcome(content) for content in from_json(text)]


def _option_values(options: PairOptions) -> dict[str, Any]:
    """Return the options by name, with absolute paths of mapping files: a worker may run in another folder."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    mapping = {field.name: getattr(options.mapping, field.name) for field in fields(options.mapping)}
    files = (name for name, value in mapping.items() if name.endswith("_mapping") and is_path(value))
    return {**values, "mapping": {**mapping, **{name: os.path.abspath(mapping[name]) for name in files}}}


def _outcome(content: dict[str, Any]) -> PairOutcome:
    first = content["first_divergence"]
    return PairOutcome(**{
        **content,
        "counts": Counts(**content["counts"]),
        "first_divergence": None if first is None else FirstDivergence(**first),
        "wrong_modules": [FirstDivergence(**wrong) for wrong in content["wrong_modules"]],
        "operators": [OperatorGroup(**group) for group in content["operators"]],
        "finding": _finding(content["finding"]),
        "unused_entries": [tuple(entry) for entry in content["unused_entries"]],
        "accepted": [AcceptedFinding(**found) for found in content["accepted"]],
        "failures": [Failure(**failure) for failure in content["failures"]],
    })


def _finding(content: dict[str, Any] | None) -> RankFinding | None:
    if content is None:
        return None
    from msprobe.analyze.communication import Exchange  # loaded for several ranks only
    from msprobe.analyze.rank_order import RankFinding

    program = [
        Exchange(call["entry"], tuple(call["sends"]), tuple(call["receives"]), call["waits"])
        for call in content["program"]
    ]
    return RankFinding(content["rank"], program, content["entry"], content["after"], content["received"])


def _mapping(content: dict[str, Any]) -> MappingOptions:
    layouts = {name: Layout(**value) for name, value in content.items() if name.endswith("_parallel")}
    slices = {name: _slices(value) for name, value in content.items() if name.endswith("_slice")}
    return MappingOptions(**{**content, **layouts, **slices})


def _slices(content: dict[str, Any] | None) -> TensorSlices | None:
    if content is None:
        return None
    from msprobe.compare.inputs.slices import AxisSlice, TensorSlices  # loaded where tensors are cut only

    return TensorSlices(tuple(AxisSlice(**axis) for axis in content["axes"]))


def _place_values(place: Place) -> list[Any]:
    values: list[Any] = [str(place.document), place.step, place.kind, place.number]
    if isinstance(place, Replica):
        values.append([[_place_values(member) for member in stage] for stage in place.members])
        values += [place.coordinates, place.chunks, place.sharing]
    return values


def _place(values: list[Any]) -> Place:
    document, step, kind, number, *members = values
    if not members:
        return Place(opened(document), step, kind, number)
    stages = tuple(tuple(_place(member) for member in stage) for stage in members[0])
    coordinates = tuple(tuple(Coordinates(*at) for at in stage) for stage in members[1])
    return Replica(opened(document), step, kind, number, stages, coordinates, *members[2:])


def _json(content: Any) -> str:
    return to_json(content, inf_nan_mode="constants").decode()
