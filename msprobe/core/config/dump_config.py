"""``DumpConfig``: the whole of config.json as one frozen value, the same for every framework.

Building a ``DumpConfig`` directly checks each field on its own; ``load_config`` also applies the rules between fields.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Strict, Tag

from msprobe.core.config.base import ConfigModel, Names, PathText, Ranges
from msprobe.core.config.ranges import IntRanges
from msprobe.core.config.sections import (
    AccCheckSection,
    DiffCheckSection,
    ExceptionDumpSection,
    NanCheckSection,
    OverflowCheckSection,
    Section,
    StatisticsSection,
    StructureSection,
    TensorSection,
)

TaskName = Literal[
    "statistics",
    "tensor",
    "acc_check",
    "overflow_check",
    "structure",
    "exception_dump",
    "diff_check",
    "nan_check",
]
LevelName = Literal["L0", "L1", "L2", "mix", "debug"]


def _apis_form(value: Any) -> str:
    return "<path>" if isinstance(value, str) else "<object>"


def _apis_or_path(value: Any) -> Any:
    if value != "" and isinstance(value, str | Mapping):
        return value
    raise ValueError('must be an object {"package.module": ["function"]}, or the path of a YAML file with one')


CustomApis = Annotated[
    Annotated[dict[str, Names], Tag("<object>")] | Annotated[PathText, Tag("<path>")],
    Discriminator(_apis_form),
    BeforeValidator(_apis_or_path),
]
_EMPTY: dict[str, JsonValue] = {"default": []}  # ranges are written as a list


class LoadConfig(ConfigModel):
    """Feed recorded inputs to chosen module calls instead of the live ones."""

    path: PathText = Field(min_length=1, description="Dump root that holds the recorded inputs (task tensor).")
    modules: Annotated[tuple[str, ...], Strict(False), Field(min_length=1)] = Field(
        description="Full forward names of the calls, Module.<path>.<Class>.forward.<n>."
    )
    step: Ranges = Field(
        default=IntRanges(),
        json_schema_extra=_EMPTY,
        description="Steps in which inputs are replaced, by those of the same recorded step; empty means all.",
    )
    rank: Ranges = Field(default=IntRanges(), json_schema_extra=_EMPTY, description="Ranks that load; empty means all.")
    dump_after_load: bool = Field(default=False, description="Also collect data in the same run.")


class DumpConfig(ConfigModel):
    """All settings of one collection; ``section`` is the one of the active task, the others keep what the file says."""

    task: TaskName = Field(default="statistics", description="What is collected.")
    dump_path: PathText = Field(default="", description="Directory for the results; relative to the working directory.")
    rank: Ranges = Field(
        default=IntRanges(),
        json_schema_extra=_EMPTY,
        description='Ranks to collect, for example [0, "4-6"]; empty means all.',
    )
    step: Ranges = Field(
        default=IntRanges(),
        json_schema_extra=_EMPTY,
        description='Steps to collect, for example [0, "4-6"]; empty means all.',
    )
    level: LevelName = Field(
        default="L1", description="L0 modules, L1 APIs, mix both, L2 kernels, debug single points given to save()."
    )
    async_dump: bool = Field(default=False, description="Write results after the step instead of during it.")
    dump_enable: bool | None = Field(
        default=None, description="Absent: fixed configuration. Present: the file is watched; this switches collection."
    )
    extra_info: bool = Field(default=True, description="Also write stack.json and construct.json.")
    precision: Literal["low", "high"] = Field(
        default="low", description="low: statistics in the type of the data; high: in float32 or better."
    )
    risk_level: Literal["CORE", "FOCUS", "ALL"] = Field(
        default="FOCUS", description="Which APIs by risk (PyTorch; L1, mix): CORE, FOCUS (no shape operations), ALL."
    )
    custom_op_namespaces: Names = Field(
        default=("_C_ascend",), description="Namespaces of torch.ops whose operators are collected too."
    )
    custom_apis: CustomApis | None = Field(
        default=None,
        description='More APIs to collect: {"package.module": ["function", "Class.method"]}, or a YAML file with that.',
    )
    enable_dataloader: bool = Field(default=False, description="Accepted from older files; has no effect.")
    load: LoadConfig | None = Field(default=None, description="Input override; absent means off.")

    statistics: StatisticsSection = StatisticsSection()
    tensor: TensorSection = TensorSection()
    acc_check: AccCheckSection = AccCheckSection()
    overflow_check: OverflowCheckSection = OverflowCheckSection()
    structure: StructureSection = StructureSection()
    exception_dump: ExceptionDumpSection = ExceptionDumpSection()
    diff_check: DiffCheckSection = DiffCheckSection()
    nan_check: NanCheckSection = NanCheckSection()

    @property
    def section(self) -> Section:
        """The section of the active task."""
        section: Section = getattr(self, self.task)
        return section

    @property
    def load_only(self) -> bool:
        """True when inputs are overridden and nothing is collected; then no ``dump_path`` is needed."""
        return self.load is not None and not self.load.dump_after_load
