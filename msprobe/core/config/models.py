"""The whole of config.json as one frozen value, the same for every framework, and the table of tasks.

Each task has a section with keys of its own: ``{"task": "tensor", "tensor": {...}}``. All sections share the base class
``Section``, so that every selection attribute can be read from any of them; it has a neutral value where the task does
not have that key. ``TASKS`` says what each task is; ``DumpConfig`` holds the sections and the keys of all tasks.

Building a ``DumpConfig`` directly checks each field on its own; ``load_config`` also applies the rules between fields.
``docs/developing/add-a-task.md`` shows how a task is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Strict, Tag

from msprobe.core.config.fields import ALL_FLOWS, ConfigModel, Count, DataMode, IntRanges, Names, PathText, Ranges
from msprobe.core.tensors.statistics import STATISTICS

_KERNEL_STATISTICS = (
    "count",
    "zero count",
    "negative zero count",
    "positive zero count",
    "nan count",
    "negative inf count",
    "positive inf count",
    "hash",
    "md5",
)
if TYPE_CHECKING:
    StatisticName = str
else:
    _WORDS = (*(spec.config_name for spec in STATISTICS), *_KERNEL_STATISTICS)
    StatisticName = Literal[_WORDS]
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
    def summary_kind(self) -> str:
        """Return ``summary_mode`` as one word: ``statistics`` when it is a list of statistics."""
        return self.summary_mode if isinstance(self.summary_mode, str) else "statistics"

    @property
    def projected(self) -> bool | Literal["auto"]:
        """Return whether the order-sensitive sum is recorded; ``auto`` where it takes no pass of its own."""
        return False

    @property
    def finding_limit(self) -> int:
        """Return after how many findings of the task's judge the collection ends; -1 for never."""
        return self.diff_nums


class StatisticsSection(Section):
    """task statistics: numbers about every tensor, real data only for ``tensor_list``."""

    inert = frozenset({"bench_path"})

    projection: bool | Literal["auto"] = Field(
        default="auto",
        description="Also record an order-sensitive sum of each tensor, which sees elements that changed places; auto "
        "does so where the pass that measures the statistics gives it too, and summary_mode is statistics.",
    )
    device: Literal["host", "device"] = Field(
        default="host", description="Where statistics are computed (MindSpore static graph O0/O1)."
    )
    precision: Literal["high", "low"] = Field(
        default="high", description="Precision of device statistics (MindSpore static graph); not the common precision."
    )

    @property
    def projected(self) -> bool | Literal["auto"]:
        """Return the setting; ``auto`` leaves it out beside a checksum, which sees the order, and where a list of
        statistics does not name it."""
        return False if self.projection == "auto" and self.summary_mode != "statistics" else self.projection


class TensorSection(Section):
    """task tensor: statistics and the real data of every tensor."""

    inert = frozenset({"tensor_list"})

    summary_mode: OneMode = Field(default="statistics", description="statistics, md5 (a CRC-32) or xor.")
    file_format: Literal["npy", "bin"] = Field(
        default="npy", description="Format of tensor files (MindSpore static graph, level L2)."
    )


class AccCheckSection(Section):
    """task acc_check: what ``msprobe acc_check`` reads, which runs each recorded API again. It collects nothing."""

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

    @property
    def finding_limit(self) -> int:
        """Return after how many overflows the collection ends; -1 for never."""
        return self.overflow_nums


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


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What one task is. Code outside of this table asks these fields and never compares the name of a task.

    Args:
        section: the model of the task's section in config.json.
        levels: the levels at which the task works. Which of them a framework has is said by ``Support``.
        default_level: the level that is used when the file gives none.
        settles_level: replace a level that is not in ``levels`` by the default, with a warning, instead of refusing it.
        aliases: older names of the task and of its section.
        bodies: record arguments and results; otherwise names, call stacks and the module tree only.
        saves_tensors: save every tensor to a file.
        async_dump: results may be written after the step instead of during it.
        kernels: at level L2 the task records kernels.
        needs_output: ``data_mode`` must include ``output``.
        needs_bench_path: ``bench_path`` is required.
        only_findings: record nothing but the calls that the judge reports, so an empty dump is a good result.
        judge: import path (``module:function``) of what makes the judge of one step from the ``DumpConfig``; "" when
            every call is recorded without a verdict. It is imported when a step begins.
        command: the command of msprobe that reads the section; a task that has one collects nothing.
    """

    section: type[Section]
    levels: tuple[LevelName, ...] = ("L0", "L1", "L2", "mix")
    default_level: LevelName = "L1"
    settles_level: bool = False
    aliases: tuple[str, ...] = ()
    bodies: bool = True
    saves_tensors: bool = False
    async_dump: bool = False
    kernels: bool = False
    needs_output: bool = False
    needs_bench_path: bool = False
    only_findings: bool = False
    judge: str = ""
    command: str = ""

    @property
    def no_collection(self) -> str:
        """Return what a user has to know of a task that collects nothing; "" for any other."""
        return self.command and f"it collects nothing; it is for {self.command}"

    @property
    def compares_live(self) -> bool:
        """Return whether ``bench_path`` of the section compares calls with a golden dump while the program runs."""
        return "bench_path" not in self.section.inert


_ALL_LEVELS: tuple[LevelName, ...] = ("L0", "L1", "L2", "mix", "debug")

TASKS: Mapping[str, TaskSpec] = {
    "statistics": TaskSpec(StatisticsSection, _ALL_LEVELS, async_dump=True, kernels=True),
    "tensor": TaskSpec(TensorSection, _ALL_LEVELS, saves_tensors=True, async_dump=True, kernels=True),
    "acc_check": TaskSpec(
        AccCheckSection, aliases=("run_ut",), command="msprobe acc_check -api_info DUMP -config FILE"
    ),
    "overflow_check": TaskSpec(
        OverflowCheckSection,
        kernels=True,
        only_findings=True,
        judge="msprobe.core.dump.tasks.nonfinite:non_finite_judge",
    ),
    "structure": TaskSpec(StructureSection, ("L0", "mix"), default_level="mix", settles_level=True, bodies=False),
    "exception_dump": TaskSpec(
        ExceptionDumpSection,
        ("L2",),
        default_level="L2",
        only_findings=True,
        judge="msprobe.core.dump.tasks.nonfinite:failing_call_judge",
    ),
    "diff_check": TaskSpec(DiffCheckSection, saves_tensors=True, needs_bench_path=True),
    "nan_check": TaskSpec(
        NanCheckSection, ("L1",), needs_output=True, judge="msprobe.core.dump.tasks.nonfinite:non_finite_judge"
    ),
}
"""Every task by its name in config.json."""


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
    modules: Annotated[tuple[str, ...], Strict(False), Field(min_length=1)] | None = Field(
        default=None,
        description="Full forward names of the calls, Module.<path>.<Class>.forward.<n>; absent: every recorded call.",
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
    step_records: Annotated[tuple[Literal["parameters", "gradients"], ...], Strict(False)] = Field(
        default=(),
        description="Also record, once per step: parameters after the step, gradients as the optimizers get them "
        "(levels L0, mix).",
    )
    enable_dataloader: bool = Field(default=False, description="Accepted from older files; has no effect.")
    load: LoadConfig | None = Field(default=None, description="Input override; absent means off.")
    perturb: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="A seed: move parameters and inputs of the model by one unit round-off, to learn what rounding "
        "does (msprobe noise --perturb); absent means off.",
    )

    statistics: StatisticsSection = StatisticsSection()
    tensor: TensorSection = TensorSection()
    acc_check: AccCheckSection = AccCheckSection()
    overflow_check: OverflowCheckSection = OverflowCheckSection()
    structure: StructureSection = StructureSection()
    exception_dump: ExceptionDumpSection = ExceptionDumpSection()
    diff_check: DiffCheckSection = DiffCheckSection()
    nan_check: NanCheckSection = NanCheckSection()

    @property
    def task_spec(self) -> TaskSpec:
        """Return what the active task is."""
        return TASKS[self.task]

    @property
    def section(self) -> Section:
        """Return the section of the active task."""
        section: Section = getattr(self, self.task)
        return section

    @property
    def load_only(self) -> bool:
        """Return True when inputs are replaced and nothing is collected; then no ``dump_path`` is needed."""
        return self.load is not None and not self.load.dump_after_load
