"""The answer of a comparison as a document: verdict, counts, first divergence.

Plain dataclasses, so that a comparison need not load pydantic; ``summary_schema`` derives the JSON Schema from them.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, ClassVar, Literal, NamedTuple

from msprobe.compare.records.call_source import NO_SOURCE, PairSource
from msprobe.compare.records.entries import phase_of, sided_name
from msprobe.compare.records.source_lines import from_source

VerdictText = Literal["same", "incomplete", "diverged", "not_comparable"]
KindText = Literal[
    "value",
    "non_finite",
    "missing_in_target",
    "missing_in_golden",
    "shape",
    "dtype",
    "argument",
    "order",
    "copies_differ",
    "not_added",
    "not_updated",
]
PolicyText = Literal["default", "reference"]
StateText = Literal["used", "unused", "expired"]
_JSON_NAMES = {"passed": "pass"}
_LACKING = {"missing_in_target": ("target", "golden run"), "missing_in_golden": ("golden run", "target")}
"""The side that lacks something, and the other one."""


def verdict_text(*, checked: bool, diverged: bool, lost: bool) -> VerdictText:
    """Return the verdict of one comparison.

    Args:
        checked: whether a value could be checked on both sides.
        diverged: whether there is a first divergence.
        lost: whether a record says that it holds data which could not be compared.
    """
    if diverged:
        return "diverged"
    if not checked:
        return "not_comparable"
    return "incomplete" if lost else "same"


def _json_name(field_name: str) -> str:
    return _JSON_NAMES.get(field_name, field_name)


_OF_VALUES = ("value", "non_finite")
_FUNCTIONS = ("Functional", "Tensor", "Torch", "VF", "Aten", "Mint", "MintFunctional")
"""Prefixes of functions that ``op_generate`` writes scripts for."""


@dataclass(slots=True)
class Counts:
    """Numbers of rows: ``pairs`` is the sum of pass, warning and error; the last two are rows without a partner.

    Under the policy ``default`` runs diverged only where one of error, ``target_only`` and ``golden_only`` is not 0: a
    call that only one side makes is a divergence without a pair, and stands in the table as a warning. What is no
    divergence although one side alone has it (a recomputed call, calls of another program, what followed the end of
    a run) is counted too.
    """

    __pydantic_config__: ClassVar[Any] = {"alias_generator": _json_name}

    pairs: int = 0
    passed: int = 0
    warning: int = 0
    error: int = 0
    target_only: int = 0
    golden_only: int = 0

    def merge(self, other: Counts) -> None:
        """Add all numbers of ``other``."""
        self.pairs += other.pairs
        self.passed += other.passed
        self.warning += other.warning
        self.error += other.error
        self.target_only += other.target_only
        self.golden_only += other.golden_only


CHANGED_LINE = "changed line"
"""What stands in the place of the run beside a line of the target in which no call is made."""


class CallOfRun(NamedTuple):
    """Where one run makes a call: the run in words, the source line, and the stack."""

    run: str
    source: str
    stack: list[str]


@dataclass(slots=True)
class FirstDivergence:
    """The earliest entry in execution order that is wrong by itself.

    ``step`` and ``rank`` are null where the input had none; ``target`` and ``golden`` are entry names, null where the
    entry is missing; ``slot`` is the place inside the entry such as output.0 or parameters.weight; ``module`` is the
    path and class of the innermost module (of a module call that one run alone makes: of what makes it), or
    ``optimizer``; ``stack`` holds the frames of the (forward) call, innermost first, from the one on that is code of
    the user or of a library, and ``source`` that one as ``PATH:LINE in FUNCTION: CODE``. Both are those of the
    target, or of the golden run where only that makes the call (``source_of_golden``); ``golden_module``,
    ``golden_stack`` and ``golden_source`` are those of the golden run, empty where it lacks the entry. Where only
    the golden run makes the call, ``target_source`` and ``target_stack`` are where the target goes on without it; where
    both make it, the line of the target from which an argument or a parameter may have its other value.
    ``stretch`` has the lines, like ``source``, of all calls of the target among which the difference arises, and of
    the one before them, where the programs are of other code; else it is empty.

    The kind ``order``: both runs make the call, one of them before and one after another call.

    ``times_tolerance`` is the difference in units of the ``tolerance`` that applied (relative to the scale of the
    tensor); null where none applies. Where whole tensors were compared, ``first_index`` is that of the first element
    that differs, ``worst_index`` that of the worst one, with its values on both sides. Where the tokens of one
    ``request`` were compared, ``token`` is the position of the first one that differs; null where that is not known.

    Where the ranks of a parallel target were merged, ``ranks`` are those to blame, and ``blame`` says why these; then
    ``rank`` is the number of the replica of the model.
    """

    step: int | None
    rank: int | None
    target: str | None
    golden: str | None
    slot: str | None
    kind: KindText
    reason: str
    module: str | None
    stack: list[str]
    tolerance: float | None = None
    times_tolerance: float | None = None
    first_index: list[int] | None = None
    worst_index: list[int] | None = None
    worst_target: str | None = None
    worst_golden: str | None = None
    source: str = ""
    golden_module: str | None = None
    golden_stack: list[str] = field(default_factory=list)
    golden_source: str = ""
    source_of_golden: bool = False
    target_source: str = ""
    target_stack: list[str] = field(default_factory=list)
    stretch: list[str] = field(default_factory=list)
    request: str | None = None
    token: int | None = None
    ranks: list[int] = field(default_factory=list)
    blame: str = ""

    @property
    def ranks_text(self) -> str:
        """The ranks to blame in words; empty where no ranks were merged."""
        return f"{', '.join(map(str, self.ranks))} ({self.blame})" if self.ranks else ""

    @property
    def name(self) -> str:
        """The entry with its side, as ``sided_name`` writes it."""
        return sided_name(self.target, self.golden)

    @property
    def calls(self) -> list[CallOfRun]:
        """Where the runs make the call, or go on without it; one of them where both do in one line."""
        if self.source_of_golden:
            calls = [CallOfRun("golden run", self.source, self.stack)]
            if self.target_source and self.target_source != self.source:
                calls.append(CallOfRun("target", self.target_source, self.target_stack))
            return calls
        calls = [CallOfRun("target", self.source, self.stack)]
        if self.target_source:
            calls.append(CallOfRun(CHANGED_LINE, self.target_source, self.target_stack))
        if self.golden_source and self.golden_source != self.source:
            calls.append(CallOfRun("golden run", self.golden_source, self.golden_stack))
        return calls

    def script_command(self, dump: str) -> str:
        """Return the command that runs the call of the target alone (``op_generate``).

        It is "" where the divergence is no function's own value, or that of merged ranks.

        Args:
            dump: the dump of the target.
        """
        name, _, phase = (self.target or "").rpartition(".")
        function = name.partition(".")[0] in _FUNCTIONS and phase in ("forward", "backward")
        if not dump or not function or self.kind not in _OF_VALUES or self.ranks:
            return ""
        backward = ["--backward"] if phase == "backward" else []
        return shlex.join(["msprobe", "op_generate", dump, "--api", name, *backward])

    @property
    def source_side(self) -> str:
        """The run whose line ``source`` is, in brackets, where the name of the entry does not tell; "" elsewhere."""
        return f" ({self.calls[0].run})" if self.source_of_golden or self.target is None else ""

    @property
    def token_text(self) -> str:
        """The token in words; empty where none is known."""
        return "" if self.token is None else f"token {self.token} of request {self.request}"

    @property
    def kind_words(self) -> str:
        """The kind in words that name the sides."""
        if self.kind == "order":
            return "in another order"
        if self.kind not in _LACKING:
            return self.kind.replace("_", " ")
        lacking, having = _LACKING[self.kind]
        if None in (self.target, self.golden):
            return f"only in the {having}"
        gradient = (self.slot or "").startswith("parameters_grad") or phase_of(self.target or "") == "backward"
        return f"no {'gradient' if gradient else 'value'} in the {lacking}"


def set_place(description: FirstDivergence, source: PairSource) -> None:
    """Fill in where both runs make the call: the stacks, the lines, and the module of the golden run."""
    golden = source.golden or NO_SOURCE
    description.stack, description.source = from_source(source.own.stack), source.own.source
    description.golden_stack, description.golden_source = from_source(golden.stack), golden.source
    description.source_of_golden = source.target is None and source.golden is not None
    description.golden_module = golden.module


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


@dataclass(slots=True)
class OperatorGroup:
    """The rows of one operator that differ (``--group-by operator``).

    ``operator`` is a function or operator of the framework, or a class of modules; ``phase`` is forward or backward.
    Of the ``rows``, which belong to ``calls``, ``errors`` differ by themselves and ``alone`` are on one side only; the
    others differ because their inputs do. ``worst`` is the largest difference in units of its tolerance, in
    ``worst_row``; null where no tolerance applies. ``first`` is the first row in the order of execution, in the
    ``step`` and on the ``rank`` that are given.
    """

    operator: str
    phase: str
    rows: int = 0
    calls: int = 0
    errors: int = 0
    alone: int = 0
    worst: float | None = None
    worst_row: str = ""
    first: str = ""
    step: int | None = None
    rank: int | None = None

    @property
    def name(self) -> str:
        """The operator with its phase in brackets."""
        return f"{self.operator} ({self.phase})" if self.phase else self.operator


@dataclass(slots=True)
class CompareSummary:
    """What `msprobe compare --json` prints.

    ``verdict`` is ``not_comparable`` where the runs hold nothing that can be judged, else ``diverged`` where there is a
    first divergence, else ``incomplete`` where a record says that it holds data which could not be compared, or a rank
    of a step is missing on one side.
    ``reason`` says why runs are not comparable, or what limits the answer, which ``notes`` has by sentence;
    ``unpaired`` are the steps and ranks that only one side has, or of which a killed process left no records, and runs
    in the folder that were not read; ``missing`` those of them that are ranks of a step of both sides, ``incomplete``
    all and whatever else was not compared (a direction, what followed when a run died, values that are null, tensors
    without a readable file); ``results`` the result tables written. ``order_blind`` says that tensors were compared by
    statistics that do not see the order of their elements, so that an agreement holds as far as these statistics tell.
    ``accepted`` are the entries of ``--accept``, and what became of them. ``wrong_modules`` has every wrong module of a
    run whose modules were fed the inputs of a good one (``load``), in the order of execution, those of all steps and
    ranks. ``setup`` says what differs between the set-ups that lie beside the dumps of runs that diverged
    (``config_check``). ``operators`` are the rows that differ by operator, where that was asked for.
    """

    verdict: VerdictText
    target: str
    golden: str
    policy: PolicyText
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    first_divergence: FirstDivergence | None = None
    unpaired: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    order_blind: bool = False
    accepted: list[AcceptedUse] = field(default_factory=list)
    wrong_modules: list[FirstDivergence] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    operators: list[OperatorGroup] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The summary as JSON values."""
        content = asdict(self)
        content["counts"] = {_json_name(name): number for name, number in content["counts"].items()}
        return content


def summary_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    return TypeAdapter(CompareSummary).json_schema(mode="serialization")
