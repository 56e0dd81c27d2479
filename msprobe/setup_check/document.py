"""The document that describes one set-up: ``setup.json`` inside the zip file, and its JSON Schema.

All sections may be empty: a static collection has no tensors, and a training started without a script has no
hyperparameters of one.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Final = "msprobe setup"
VERSION = 1

Setting = str | int | float | bool | None | list[Any]
"""The value of a hyperparameter; what is none of these is kept as its text."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")


class TensorFacts(_Part):
    """One tensor: its statistics, and hashes that tell equal content and equal elements.

    Attributes:
        content: hash of dtype, shape and bytes; empty where only statistics are known.
        elements: sum of the bit patterns, the same for the same elements in any order; empty where not known.
        projection: weighted sum of the elements by position (``core.tensors.projection``).
    """

    dtype: str = ""
    shape: list[int] = []
    max: float | None = None
    min: float | None = None
    mean: float | None = None
    norm: float | None = None
    projection: float | None = None
    content: str = ""
    elements: str = ""


class StepTensors(_Part):
    """The tensors of one forward pass of one rank, by name.

    Attributes:
        others: names of inputs that are no tensors; only whether both sides have them is compared.
    """

    step: int
    rank: int
    tensors: dict[str, TensorFacts]
    others: list[str] = []


class RandomCall(_Part):
    """One place of the program that draws random numbers, and how often it did before the first forward pass ended."""

    function: str
    count: int
    stack: list[str]


class RankCalls(_Part):
    """The random calls of one rank."""

    rank: int
    calls: list[RandomCall]


class SetupDocument(_Part):
    """One set-up.

    Attributes:
        environment: variables of an allow-list, without credentials.
        packages: version of each installed distribution.
        machine: processor, memory, devices and drivers.
        framework: version, build and switches of the framework; only where it was loaded.
        hyperparameters: by source (``train.sh``, ``command line``, ``megatron``), each name with its value.
    """

    format: Literal["msprobe setup"] = FORMAT
    version: int = VERSION
    tool: str = ""
    environment: dict[str, str] = {}
    packages: dict[str, str] = {}
    machine: dict[str, str] = {}
    framework: dict[str, Setting] = {}
    hyperparameters: dict[str, dict[str, Setting]] = {}
    data: list[StepTensors] = Field(default_factory=list)
    weights: list[StepTensors] = Field(default_factory=list)
    random: list[RankCalls] = Field(default_factory=list)


def setup_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``setup.json``."""
    return SetupDocument.model_json_schema()
