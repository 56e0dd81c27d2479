"""The answer of a comparison as a document: verdict, counts, first divergence.

Plain dataclasses, so that a comparison need not load pydantic; ``summary_schema`` derives the JSON Schema from them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

VerdictText = Literal["same", "diverged", "not_comparable"]
KindText = Literal["value", "non_finite", "missing_in_target", "missing_in_golden", "shape", "dtype", "argument"]
PolicyText = Literal["default", "reference"]
_JSON_NAMES = {"passed": "pass"}


def _json_name(field_name: str) -> str:
    return _JSON_NAMES.get(field_name, field_name)


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


@dataclass(slots=True)
class FirstDivergence:
    """The earliest entry in execution order that is wrong by itself.

    ``step`` and ``rank`` are null where the input had none; ``target`` and ``golden`` are entry names, null where the
    entry is missing; ``slot`` is the place inside the entry such as output.0 or parameters.weight; ``module`` is the
    path and class of the innermost module, or ``optimizer``; ``stack`` holds the frames of the (forward) call,
    innermost first.

    ``times_tolerance`` is the difference in units of the ``tolerance`` that applied (relative to the scale of the
    tensor); null where none applies. Where whole tensors were compared, ``first_index`` is that of the first element
    that differs, ``worst_index`` that of the worst one, with its values on both sides.
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


@dataclass(slots=True)
class CompareSummary:
    """What `msprobe compare --json` prints.

    ``reason`` says why runs are not comparable, or what limits the answer; ``unpaired`` are the steps and ranks that
    only one side has, or of which a killed process left no records, ``incomplete`` those and whatever else was not
    compared (a direction, what followed when a run died, values that are null, tensors without a readable file);
    ``results`` the result tables written.
    """

    verdict: VerdictText
    target: str
    golden: str
    policy: PolicyText
    reason: str = ""
    counts: Counts = field(default_factory=Counts)
    first_divergence: FirstDivergence | None = None
    unpaired: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The summary as JSON values."""
        content = asdict(self)
        content["counts"] = {_json_name(name): number for name, number in content["counts"].items()}
        return content


def summary_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    return TypeAdapter(CompareSummary).json_schema(mode="serialization")
