"""What ``msprobe answers`` found, as a JSON document and as lines."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from msprobe.response_anomaly.answer import KINDS, Answer, Finding
from msprobe.response_anomaly.answer_files import StoredAnswer


class FoundPart(BaseModel):
    """One odd part of an answer."""

    model_config = ConfigDict(frozen=True)

    type: int = Field(ge=1, le=4, description="1 rare character, 2 garbled, 3 repetition, 4 NaN.")
    name: str = Field(description="The type in words.")
    start: int = Field(ge=0, description="The first token (or character), from 0.")
    end: int = Field(description="The one behind the last.")
    unit: Literal["token", "character"]
    text: str = Field(description="The part, cut to 200 characters; empty where the texts of the tokens are not known.")
    reason: str


class JudgedAnswer(BaseModel):
    """One answer."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="The line of the file.")
    status: Literal["ok", "odd", "not_judged"]
    type: int = Field(ge=0, le=4, description="The gravest type that was found; 0 for none.")
    tokens: int = Field(ge=0)
    findings: list[FoundPart] = []
    problem: str = Field("", description="Why the answer was not judged.")


class AnswersResult(BaseModel):
    """The document of ``msprobe answers --json``."""

    model_config = ConfigDict(frozen=True)

    verdict: Literal["ok", "odd", "not_judged"] = Field(description="What the worst answer is.")
    counts: dict[str, int] = Field(description="How many answers of each type; ok and not_judged too.")
    answers: list[JudgedAnswer]


def judged(stored: StoredAnswer, findings: list[Finding]) -> JudgedAnswer:
    """Return the entry of one answer."""
    answer = stored.answer
    if answer is None:
        return JudgedAnswer(name=stored.name, status="not_judged", type=0, tokens=0, problem=stored.problem)
    parts = [_part(answer, finding) for finding in findings]
    kind = findings[0].kind if findings else 0
    status: Literal["ok", "odd"] = "odd" if findings else "ok"
    return JudgedAnswer(name=stored.name, status=status, type=kind, tokens=len(answer.ids), findings=parts)


def result_of(answers: list[JudgedAnswer]) -> AnswersResult:
    """Return the document of all answers."""
    states = {answer.status for answer in answers}
    counts = Counter(KINDS[each.type] if each.status != "not_judged" else "not_judged" for each in answers)
    verdict: Literal["ok", "odd", "not_judged"] = "odd" if "odd" in states else "ok"
    if verdict == "ok" and "not_judged" in states:
        verdict = "not_judged"
    return AnswersResult(verdict=verdict, counts=dict(counts), answers=answers)


def line_of(part: FoundPart) -> str:
    """Return one line for a terminal."""
    place = (
        f"{part.unit} {part.start}" if part.end - part.start == 1 else f"{part.unit}s {part.start} to {part.end - 1}"
    )
    return f"{part.name}, {place}: {part.reason}"


def answers_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return AnswersResult.model_json_schema()


def _part(answer: Answer, finding: Finding) -> FoundPart:
    pieces = answer.pieces or ()
    text = b"".join(pieces[finding.start : finding.end])[:800].decode("utf-8", "replace")[:200]
    return FoundPart(
        type=finding.kind, name=KINDS[finding.kind], start=finding.start, end=finding.end,
        unit="character" if answer.unit == "character" else "token", text=text, reason=finding.reason,
    )  # fmt: skip
