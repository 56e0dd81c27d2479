"""The answer of a comparison as a document: verdict, counts, first divergence."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

VerdictText = Literal["same", "diverged", "not_comparable"]
KindText = Literal["value", "non_finite", "missing_in_target", "missing_in_golden", "shape", "dtype", "argument"]


class Counts(BaseModel):
    """Numbers of rows: ``pairs`` is the sum of pass, warning and error; the last two are rows without a partner."""

    model_config = ConfigDict(populate_by_name=True)

    pairs: int = 0
    passed: int = Field(default=0, alias="pass")
    warning: int = 0
    error: int = 0
    target_only: int = 0
    golden_only: int = 0

    def add(self, level: str) -> None:
        """Count one pair of this level (pass, warning or error)."""
        self.pairs += 1
        if level == "pass":
            self.passed += 1
        elif level == "warning":
            self.warning += 1
        else:
            self.error += 1

    def merge(self, other: Counts) -> None:
        """Add all numbers of ``other``."""
        for name in type(self).model_fields:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class FirstDivergence(BaseModel):
    """The earliest entry in execution order that is wrong by itself."""

    step: int | None = Field(description="step number, null when the input was no step folder")
    rank: int | None = Field(description="rank number, null for a process without rank")
    target: str | None = Field(description="entry name in the target, null when it is missing there")
    golden: str | None = Field(description="entry name in the golden dump, null when it is missing there")
    slot: str | None = Field(description="place inside the entry, such as output.0 or parameters.weight")
    kind: KindText
    reason: str
    module: str | None = Field(description="path and class of the innermost module, or `optimizer`")
    stack: list[str] = Field(
        description="frames of the call, innermost first; of the forward call for a backward entry"
    )


class CompareSummary(BaseModel):
    """What `msprobe compare --json` prints."""

    verdict: VerdictText
    reason: str = Field(default="", description="why the runs are not comparable, or what limits the answer")
    target: str
    golden: str
    policy: Literal["default", "reference"]
    counts: Counts = Counts()
    first_divergence: FirstDivergence | None = None
    unpaired: list[str] = Field(default_factory=list, description="steps and ranks that only one side has")
    results: list[str] = Field(default_factory=list, description="result tables written")


SCHEMAS: dict[str, type[BaseModel]] = {"compare_summary": CompareSummary}
