"""The documents of a dump as models, from which the JSON Schemas of dump.json, stack.json and construct.json are made.

The reader does not use these models: it checks headers and shapes of documents itself, because validating hundreds of
thousands of leaves would cost more than reading them. A leaf is an object with ``type``; that of a tensor also has
``dtype``, ``shape`` and the statistics of ``core.tensors.statistics``.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

Node = Annotated[Any, Field(description="null, a leaf object with `type`, or a list or object of nodes")]


class Entry(BaseModel):
    """One record of one call. Backward records use `input` and `output`; parameters_grad records map names to one
    item."""

    model_config = ConfigDict(extra="allow")

    input_args: list[Node] | None = None
    input_kwargs: dict[str, Node] | None = None
    input: list[Node] | None = Field(default=None, description="gradients of the forward outputs")
    output: list[Node] | None = Field(default=None, description="results, or gradients of the forward inputs")
    parameters: dict[str, Node] | None = None
    is_recompute: bool | None = Field(default=None, description="forward call repeated by activation checkpointing")
    error: str | None = Field(default=None, description="text of the exception the call raised")


class DumpDocument(BaseModel):
    """dump.json; keys of `data` stand in the order in which the calls completed."""

    model_config = ConfigDict(extra="allow")

    task: str
    level: str | None = None
    framework: str | None = None
    dump_data_dir: str | None = None
    why_empty: str | None = Field(default=None, description="why a step has no records: the filters and what they saw")
    data: dict[str, Entry] = Field(description="by entry name; NaN and Infinity may appear as bare tokens")


class StackDocument(RootModel[dict[str, tuple[list[str], list[str]]]]):
    """stack.json: number to (entry names, frames); frames innermost first."""


class ConstructDocument(RootModel[dict[str, Any]]):
    """construct.json: entry name to its parent module entry, `optimizer`, `clip_grad` or null."""


def dump_schema() -> dict[str, Any]:
    """Return the JSON Schema of dump.json."""
    return DumpDocument.model_json_schema()


def stack_schema() -> dict[str, Any]:
    """Return the JSON Schema of stack.json."""
    return StackDocument.model_json_schema()


def construct_schema() -> dict[str, Any]:
    """Return the JSON Schema of construct.json."""
    return ConstructDocument.model_json_schema()
