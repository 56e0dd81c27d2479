"""The part of the configuration that belongs to one task: ``{"task": "tensor", "tensor": {...}}``.

All sections share one base class. A reader of a section therefore finds every selection attribute, with a neutral
value where the task does not have that key.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Strict, Tag

from msprobe.core.config.base import ALL_FLOWS, ConfigModel, Count, DataMode, Names, PathText

StatisticName = Literal[
    "max",
    "min",
    "mean",
    "l2norm",
    "count",
    "zero count",
    "negative zero count",
    "positive zero count",
    "nan count",
    "negative inf count",
    "positive inf count",
    "hash",
    "md5",
]
OneMode = Literal["statistics", "md5", "xor"]


def _mode_form(value: Any) -> str:
    return "<list>" if isinstance(value, list | tuple) else "<text>"


SummaryMode = Annotated[
    Annotated[OneMode, Tag("<text>")]
    | Annotated[tuple[StatisticName, ...], Strict(False), Field(min_length=1), Tag("<list>")],
    Discriminator(_mode_form),
]


class SliceItem(ConfigModel):
    """Measure only ``tensor[begin:end]`` along ``dim``; with ``size``, only where the dimension has that length."""

    dim: int = Field(default=0, ge=0, description="Dimension to cut.")
    size: int | None = Field(default=None, ge=0, description="Cut only when the dimension has this length.")
    begin: int | None = Field(default=None, description="First index kept; the start when absent.")
    end: int | None = Field(default=None, description="First index not kept; the end when absent.")


class Section(ConfigModel):
    """The keys that the sections of all tasks share."""

    inert: ClassVar[frozenset[str]] = frozenset({"tensor_list", "bench_path"})
    """Keys that this section inherits and that have no effect in it."""
    input_folders: ClassVar[Mapping[str, str]] = {
        "bench_path": "there is no such directory; give the dump_path of the golden run"
    }
    """Keys that name a directory which must exist before a run, each with what to do when it does not."""

    scope: Names = Field(
        default=(), description="Empty, or the two full names between which (both included) data is collected."
    )
    names: Names = Field(
        default=(),
        alias="list",
        description="Full entry names (exact), fragments (substring) or name-regex(...); empty selects everything.",
    )
    tensor_list: Names = Field(
        default=(), description="Entries containing one of these also get their real data saved (levels L0, L1, mix)."
    )
    data_mode: DataMode = Field(
        default=ALL_FLOWS,
        description='Which data: ["all"], or up to four of forward, backward, input, output.',
        json_schema_extra={"default": ["all"]},
    )
    summary_mode: SummaryMode = Field(
        default="statistics",
        description="statistics, md5 (a CRC-32 on dynamic graphs), xor, or a list of statistics.",
    )
    slice: Annotated[tuple[SliceItem, ...], Strict(False)] = Field(
        default=(), description="Cut tensors before measuring and saving (not in static graphs; levels L0, L1, mix)."
    )
    request_id: str | None = Field(
        default=None, description="Collect only the tokens of this request; needs start(scheduled_tokens=...)."
    )
    bench_path: PathText | None = Field(
        default=None, description="Golden dump to compare with while running; only differing calls are saved."
    )
    diff_nums: Count = Field(default=1, description="Stop after this many differences; -1 never stops.")

    @property
    def one_mode(self) -> str:
        """Return ``summary_mode`` as one word: ``statistics`` when it is a list of statistics."""
        return self.summary_mode if isinstance(self.summary_mode, str) else "statistics"


class StatisticsSection(Section):
    """task statistics: numbers about every tensor, real data only for ``tensor_list``."""

    inert = frozenset({"bench_path"})

    projection: bool = Field(
        default=False,
        description="Also record an order-sensitive sum of each tensor, which sees elements that changed places.",
    )
    device: Literal["host", "device"] = Field(
        default="host", description="Where statistics are computed (MindSpore static graph O0/O1)."
    )
    precision: Literal["high", "low"] = Field(
        default="high", description="Precision of device statistics (MindSpore static graph); not the common precision."
    )


class TensorSection(Section):
    """task tensor: statistics and the real data of every tensor."""

    inert = frozenset({"tensor_list"})

    summary_mode: OneMode = Field(default="statistics", description="statistics, md5 (a CRC-32) or xor.")
    file_format: Literal["npy", "bin"] = Field(
        default="npy", description="Format of tensor files (MindSpore static graph, level L2)."
    )


class AccCheckSection(Section):
    """task acc_check: each recorded API is run again and judged. No framework supports this task yet."""

    input_folders: ClassVar[Mapping[str, str]] = {
        **Section.input_folders,
        "error_data_path": "there is no such directory; create it first",
    }

    white_list: Names = Field(default=(), description="Check only these APIs, for example conv1d.")
    black_list: Names = Field(default=(), description="Do not check these APIs.")
    error_data_path: PathText = Field(default="./", description="Where data of failing APIs goes.")


class OverflowCheckSection(Section):
    """task overflow_check: record around the first non-finite results."""

    overflow_nums: Count = Field(default=1, description="Stop after this many overflows; -1 never stops.")
    check_mode: Literal["all", "aicore", "atomic"] = Field(
        default="all", description="Kind of overflow (MindSpore static graph before 2.3)."
    )


class StructureSection(Section):
    """task structure: call stacks and the module tree only."""


class ExceptionDumpSection(Section):
    """task exception_dump: MindSpore writes the operands of the operator that failed."""


class DiffCheckSection(Section):
    """task diff_check: stop after ``diff_nums`` differences against a golden dump."""

    inert = frozenset({"tensor_list"})


class NanCheckSection(Section):
    """task nan_check: stop at the first non-finite result."""

    inert = frozenset({"bench_path"})
