"""The whole of config.json as one frozen value, the same for every framework, and the table of tasks.

Each task has a section with keys of its own (``sections``): ``{"task": "tensor", "tensor": {...}}``. ``TASKS`` says
what each task is; ``DumpConfig`` holds the sections and the keys of all tasks.

Building a ``DumpConfig`` directly checks each field on its own; ``load_config`` also applies the rules between fields.
``docs/developing/add-a-task.md`` shows how a task is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Strict, Tag

from msprobe.core.config.fields import ConfigModel, IntRanges, Names, PathText, Ranges
from msprobe.core.config.sections import (
    AccCheckSection,
    DiffCheckSection,
    ExceptionDumpSection,
    FreeBenchmarkSection,
    GradProbeSection,
    NanCheckSection,
    OnlineCheckSection,
    OverflowCheckSection,
    Section,
    StatisticsSection,
    StructureSection,
    TensorSection,
)
from msprobe.core.config.when_to_record import ByteCount, Seconds

TaskName = Literal[
    "statistics",
    "tensor",
    "acc_check",
    "overflow_check",
    "structure",
    "exception_dump",
    "diff_check",
    "nan_check",
    "free_benchmark",
    "online_check",
    "grad_probe",
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
        checker: import path (``module:function``) of what makes the ``CallChecker`` of a session, which runs calls
            again while the program runs; "" for none. Calls with a finding are recorded.
        checks_operators: it checks operators where the framework shows them, else calls of functions.
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
    checker: str = ""
    checks_operators: bool = False

    @property
    def no_collection(self) -> str:
        """Return what a user has to know of a task that collects nothing; "" for any other."""
        return self.command and f"start() collects nothing; it is for {self.command}"

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
    "free_benchmark": TaskSpec(
        FreeBenchmarkSection,
        ("L1",),
        settles_level=True,
        saves_tensors=True,
        only_findings=True,
        checker="msprobe.online.free_benchmark:make_checker",
    ),
    "online_check": TaskSpec(
        OnlineCheckSection,
        ("L1",),
        settles_level=True,
        saves_tensors=True,
        only_findings=True,
        checker="msprobe.online.operator_checker:make_checker",
        checks_operators=True,
    ),
    "grad_probe": TaskSpec(GradProbeSection, settles_level=True, command="monitor(model)"),
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
    extra_info: bool = Field(default=True, description="Also write stack.json, construct.json and source.json.")
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
    training_records: bool = Field(
        default=True,
        description="Also record what msprobe check reads (level mix, PyTorch): calls that move the training on, the "
        "gradients that each optimizer step gets, and every parameter at the end of the step.",
    )
    enable_dataloader: bool = Field(
        default=False, description="PyTorch: every batch of a DataLoader is a step, without start(), stop() and step()."
    )
    disk_budget: ByteCount | None = Field(
        default=None,
        description='Bytes ("10GB") that a run may write on one machine; collection ends there, the program goes on.',
    )
    time_budget: Seconds | None = Field(
        default=None,
        description='Seconds ("10min") from the first recorded step on; collection ends then, the program goes on.',
    )
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
    free_benchmark: FreeBenchmarkSection = FreeBenchmarkSection()
    online_check: OnlineCheckSection = OnlineCheckSection()
    grad_probe: GradProbeSection = GradProbeSection()

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
