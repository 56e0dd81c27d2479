"""The documents of a dump as models: what dump.json, stack.json and construct.json may hold.

They are the source of the JSON Schemas. The reader checks headers and shapes of documents itself, because validating
hundreds of thousands of leaves would cost more than reading them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

Number = float | int | bool | str | None
Node = Annotated[Any, Field(description="null, a leaf object with `type`, or a list or object of nodes")]


class Leaf(BaseModel):
    """One recorded value: a tensor with its statistics, or a plain argument with its value."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    type: str
    dtype: str | None = None
    shape: list[int] | None = None
    max: Number = Field(default=None, alias="Max")
    min: Number = Field(default=None, alias="Min")
    mean: Number = Field(default=None, alias="Mean")
    norm: Number = Field(default=None, alias="Norm", description="L2 norm, in the unit of the data")
    projection: Number = Field(
        default=None, alias="Projection", description="order-sensitive sum, where it was asked for"
    )
    requires_grad: bool | None = None
    data_name: str | None = Field(default=None, description="file below dump_tensor_data")
    md5: str | float | None = Field(
        default=None, description="CRC-32 (8 hex digits) or 64-bit xor (0x and 16 hex digits)"
    )
    value: Any = None


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
    data: dict[str, Entry] = Field(description="by entry name; NaN and Infinity may appear as bare tokens")


class StackDocument(RootModel[dict[str, tuple[list[str], list[str]]]]):
    """stack.json: number to (entry names, frames); frames innermost first."""


class ConstructDocument(RootModel[dict[str, Any]]):
    """construct.json: entry name to its parent module entry, `optimizer`, `clip_grad` or null."""


def dump_schema() -> dict[str, Any]:
    return DumpDocument.model_json_schema()


def stack_schema() -> dict[str, Any]:
    return StackDocument.model_json_schema()


def construct_schema() -> dict[str, Any]:
    return ConstructDocument.model_json_schema()
