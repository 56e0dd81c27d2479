"""The JSON documents of ``compare -da`` and ``overflow_check`` as models, of which their schemas are made."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_ROWS = "The columns of the result table by title, and state, api_origin_name, the op and peer of batched transfers."


class ComparedCall(BaseModel):
    """One call in ``compare_result_rank{N}_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    is_same: bool = Field(description="every value within its tolerance, and on both sides")
    op_items: list[dict[str, Any]] = Field(description=_ROWS)


class FirstCall(BaseModel):
    """One call in ``diff_analyze_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    op_name: str
    data_info: dict[str, dict[str, dict[str, Any]]] = Field(
        description="below input and output: name of a value, to its statistics or checksums by title"
    )
    stack_info: list[str] = Field(
        description="frames of the target, innermost first, or of the golden run where only that has the call; empty "
        "where none were recorded"
    )
    name: str = Field(description="the call, with the side or sides that have it")
    reason: str
    module: str | None = Field(description="path and class of the module around the call")
    source: str = Field(description="the line of stack_info that made the call")
    source_side: str = Field(
        description="the run that the line is of, in brackets, where the name does not tell; empty elsewhere"
    )
    golden_stack_info: list[str] = Field(description="frames of the golden run")
    golden_source: str = Field(description="the line of the golden run, where both runs have the call and it differs")
    ranks: list[int] = Field(description="where ranks of the target were merged, those to blame")
    blame: str = Field(description="why these ranks; empty where none were merged")


class OverflowCall(BaseModel):
    """One call in ``anomaly_analyze_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    op_name: str
    data_info: dict[str, Any] | list[Any] = Field(description="the recorded sections of the call, as in dump.json")
    construct_info: list[str] = Field(description="the modules around the call from the root on, and the call")
    stack_info: list[str] | dict[str, Any] = Field(description="frames, innermost first; {} where none were recorded")
    reason: str
    module: str | None = Field(default=None, description="path and class of the module around the call")
    source: str = Field(default="", description="the line of stack_info that made the call")


ComparedCalls = TypeAdapter(dict[str, ComparedCall])
"""By name of the call."""
FirstCalls = TypeAdapter(dict[str, list[FirstCall]])
"""By rank, as rank_0."""
OverflowCalls = TypeAdapter(dict[str, list[OverflowCall]])
"""By rank, as rank_0."""


def compared_calls_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``compare_result_rank{N}_{time}.json``."""
    return ComparedCalls.json_schema()


def first_calls_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``diff_analyze_{time}.json``."""
    return FirstCalls.json_schema()


def overflow_calls_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``anomaly_analyze_{time}.json``."""
    return OverflowCalls.json_schema()
