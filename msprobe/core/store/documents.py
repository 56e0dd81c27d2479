"""The documents of a dump as models, from which their JSON Schemas are made.

The reader does not use these models: it checks headers and shapes of documents itself, because validating hundreds of
thousands of leaves would cost more than reading them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel


class Value(BaseModel):
    """One recorded value. A tensor has `dtype`, `shape` and its statistics (`Max` and so on); any other value has
    `value`."""

    model_config = ConfigDict(extra="allow")

    type: str
    dtype: str | None = None
    shape: list[int] | None = None
    requires_grad: bool | None = None
    data_name: str | None = Field(default=None, description="the file of the tensor, with task `tensor`")
    memory: str | None = Field(
        default=None,
        description="the number of its storage in this process and the version of the content, `17.3`; `17` where "
        "nothing counts the writes. Tensors with one `memory` are views of one content",
    )
    part: str | None = Field(
        default=None,
        description="offset and strides in elements, `4:12,1`, where it does not lie at the begin of the storage with "
        "its elements in order",
    )
    uninitialised: Literal[True] | None = Field(
        default=None, description="nobody had written the memory, so there are no statistics"
    )
    not_read: Literal[True] | None = Field(
        default=None, description="an argument that the operation does not read, so there are no statistics"
    )
    no_data: Literal[True] | None = Field(
        default=None,
        description="it had no data when it was recorded: meta, communication under way, storage released",
    )
    vmap_axes: int | None = Field(
        default=None,
        description="inside a transform of functions: how many axes in front of the shape are those of vmap",
    )
    layout: str | None = Field(default=None, description="of a sparse or nested tensor; its file has its values alone")


class Node(RootModel["Value | list[Node] | dict[str, Node] | None"]):
    """What stands for an argument or a result: null, a value, or a list or object of nodes."""


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
    training: bool | None = Field(default=None, description="of a module call: whether the module was in training mode")
    autograd: Literal["grad", "no_grad", "inference"] | None = Field(
        default=None, description="autograd mode at the begin of the call; a function without it ran with `grad`"
    )
    autocast: str | None = Field(
        default=None, description="the dtype of automatic casts that were on at the begin of the call"
    )
    attributes: dict[str, Node] | None = Field(
        default=None,
        description="of an operator that is an object (a primitive of MindSpore): the arguments that made it",
    )
    group_id: str | None = Field(default=None, description="of a collective: its group in `process_groups`")


class Writer(BaseModel):
    """What wrote the dump, and for which framework."""

    name: str
    version: str
    framework_version: str | None = None
    device: str | None = Field(
        default=None, description="of MindSpore: the kind of device on which it computed, such as `CPU`"
    )


class End(BaseModel):
    """How the step ended. A process that was killed leaves none."""

    by: Literal["step", "stop", "reset", "exit", "exception", "disk_budget", "time_budget"]
    error: str | None = Field(default=None, description="text of the exception that ended the step")


class Sampled(BaseModel):
    """Which part of the steps and calls was recorded (`sample`)."""

    every: int = Field(description="the steps whose number is a multiple of this")
    share: float = Field(description="the share of the calls, chosen by a hash of their names")


class KeptFor(BaseModel):
    """Why a step that was kept in memory was written (`ring`)."""

    kind: Literal["nan", "spike", "alert", "trigger", "exception"]
    reason: str
    step: int = Field(description="the step in which the reason came; earlier ones were kept until then")


class ProcessGroup(BaseModel):
    """One process group that a recorded collective ran in."""

    group_id: str
    ranks: list[int]


class ParameterGroup(BaseModel):
    """One parameter group of an optimizer: its settings, such as `lr`, as they were when the step began."""

    model_config = ConfigDict(extra="allow")

    lr: Node | None = None
    parameters: list[str | None] | None = Field(
        default=None, description="names, null for a tensor that is no parameter of the model; at the first step only"
    )


class OptimizerStep(BaseModel):
    """One step of an optimizer."""

    optimizer: int = Field(description="number of the optimizer in this dump")
    class_: str | None = Field(default=None, alias="class", description="at the first step of an optimizer only")
    stack: list[str] | None = Field(default=None, description="where the step is called: frames, innermost first")
    groups: list[ParameterGroup]


class GradientCall(BaseModel):
    """One call with which a program adds gradients to those that parameters have, or removes them."""

    call: str = Field(description="`backward` or `zero_grad`")
    stack: list[str] = Field(description="where it is called: frames, innermost first")


class ValueRead(BaseModel):
    """A floating-point tensor whose numbers the program takes, outside of modules and optimizers."""

    call: str = Field(description="`item`, `tolist`, `numpy`, `__float__` or `__repr__`")
    value: Value
    numbers: list[float] | None = Field(
        default=None, description="its elements in their order, where they are at most 512, and 4,096 in a step"
    )
    stack: list[str] | None = Field(default=None, description="where it is called: frames, innermost first")


class ValueMove(BaseModel):
    """One call that is no entry and only moves, converts or creates values."""

    call: str
    from_: list[str] = Field(
        alias="from", description="the tensors that it gets: `2,8` is a shape; `memory` and `part` follow, if recorded"
    )
    to: list[str] = Field(description="those that it returns")
    after: int = Field(description="how many records the step had when it was made")
    parent: str | None = Field(default=None, description="the module call around it")
    line: str | None = Field(default=None, description="the innermost frame of the program")


class TrainingCall(BaseModel):
    """One call that moves a training on, with what it was told and did."""

    model_config = ConfigDict(extra="allow")

    call: str = Field(
        description="`backward`, `zero_grad`, `optimizer_step`, `scheduler_step`, `clip_grad`, `generate`; "
        "`child_processes`: how many daemons, such as workers of a data loader, live at the end of the step; "
        "`kept_gradients`: the step that follows gets gradients that an earlier step has used already, or, with "
        "`by_closure`, the step before it did so through its closure; "
        "`progress`: steps and epochs of a trainer, done and planned"
    )
    after: int = Field(description="how many records the step had when it was made")
    optimizer: int | None = Field(default=None, description="its number in `optimizers`; null: not known yet")
    stack: list[str] | None = Field(default=None, description="where it is called: frames, innermost first")


class NamedTensor(BaseModel):
    """One parameter, or its gradient, as this process holds it."""

    name: str
    value: Node


class ModelParameter(NamedTensor):
    """One parameter at the end of the step."""

    has_gradient: bool | None = Field(
        description="whether its gradient was still there; null: another thread computes gradients"
    )


class StepGradients(BaseModel):
    """Gradients as an optimizer gets them: summed over micro steps and ranks, unscaled and clipped."""

    optimizer: int | None = Field(description="its number in `optimizers`; null: no optimizer was seen")
    gradients: list[NamedTensor]


class RunOfStep(BaseModel):
    """When the program and its step began, in seconds since 1970; runs in one folder are told apart by them."""

    model_config = ConfigDict(extra="allow")

    program_began: float
    step_began: float
    processes: int | None = Field(default=None, description="how many processes the job has, where its launcher says")


class RequestInBatch(BaseModel):
    """The rows of one request in a packed batch."""

    id: str = Field(description="as the server names it")
    tokens: int = Field(description="how many rows of the batch belong to it")
    position: int = Field(description="which token of the request the first of them is, from 0")


class Batch(BaseModel):
    """What `start(scheduled_tokens=...)` said of the step."""

    requests: list[RequestInBatch] = Field(
        description="in the order of the batch; empty where a step had several starts with different batches"
    )
    only: str | None = Field(default=None, description="the request to whose rows tensors were cut (`request_id`)")


class DumpDocument(BaseModel):
    """dump.json; keys of `data` stand in the order in which the calls completed."""

    model_config = ConfigDict(extra="allow")

    task: str
    level: str | None = None
    framework: str | None = None
    dump_data_dir: str | None = None
    written_by: Writer | None = None
    run: RunOfStep | None = None
    end: End | None = None
    process_groups: list[ProcessGroup] | None = None
    shared_storage: list[list[str]] | None = Field(
        default=None, description="names of parameters that are one tensor or begin at one address"
    )
    not_measured: list[str] | None = Field(
        default=None,
        description="modules in compiled graphs of which the calls, or the backward calls, are not recorded",
    )
    optimizers: list[OptimizerStep] | None = Field(default=None, description="in the order in which the steps began")
    gradient_calls: list[GradientCall] | None = Field(default=None, description="in the order of execution")
    reads: list[ValueRead] | None = Field(
        default=None, description="values that the program reads, the first 1,000 of a step, in the order of execution"
    )
    moves: list[ValueMove] | None = Field(
        default=None,
        description="calls that only move values, the first 20,000 of a step, in the order of execution: through them "
        "a tensor is followed to the call that made its values",
    )
    gradients_of_step: list[StepGradients] | None = Field(default=None, description="with `step_records`")
    perturbed: int | None = Field(
        default=None, description="with `perturb`: the seed by which parameters and inputs were moved"
    )
    inputs_fed: str | None = Field(default=None, description="with `load`: where the inputs lie that modules were fed")
    parameters_after_step: list[NamedTensor] | None = Field(default=None, description="with `step_records`")
    training_calls: list[TrainingCall] | None = Field(
        default=None, description="with `training_records`: in the order of execution"
    )
    model_parameters: list[ModelParameter] | None = Field(
        default=None, description="with `training_records`: every parameter at the end of the step"
    )
    scheduled_tokens: Batch | None = Field(default=None, description="with `start(scheduled_tokens=...)`")
    model_file: str | None = Field(default=None, description="of `offline_dump`: the model file that was run")
    sampled: Sampled | None = Field(default=None, description="with `sample`")
    kept_for: KeptFor | None = Field(default=None, description="with `ring`")
    why_empty: str | None = Field(default=None, description="why a step has no records: the filters and what they saw")
    data: dict[str, Entry] = Field(description="by entry name; NaN and Infinity may appear as bare tokens")


class StackDocument(RootModel[dict[str, tuple[list[str], list[str]]]]):
    """stack.json: number to (entry names, frames); frames innermost first."""


class SourceDocument(RootModel[dict[str, str]]):
    """source.json: path to text, of the files of the program in which recorded calls are made; without packages."""


class ConstructDocument(RootModel[dict[str, Any]]):
    """construct.json: entry name to its parent module entry, `optimizer`, `clip_grad` or null."""


def dump_schema() -> dict[str, Any]:
    """Return the JSON Schema of dump.json."""
    return DumpDocument.model_json_schema()


def stack_schema() -> dict[str, Any]:
    """Return the JSON Schema of stack.json."""
    return StackDocument.model_json_schema()


def source_schema() -> dict[str, Any]:
    """Return the JSON Schema of source.json."""
    return SourceDocument.model_json_schema()


def construct_schema() -> dict[str, Any]:
    """Return the JSON Schema of construct.json."""
    return ConstructDocument.model_json_schema()
