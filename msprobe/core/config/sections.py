"""The sections of config.json: the keys of one task each.

All sections share the base class ``Section``, so that every selection attribute can be read from any of them; it has a
neutral value where the task does not have that key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Strict, Tag, field_validator

from msprobe.core.config.fields import ALL_FLOWS, ConfigModel, Count, DataMode, Names, PathText
from msprobe.core.config.when_to_record import RingSettings, SampleSettings
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
    def names_memory(self) -> bool:
        """Return whether each tensor says which memory it lies in."""
        return False

    @property
    def kept_steps(self) -> RingSettings | None:
        """Return how steps are kept in memory; None where they are written at once."""
        return None

    @property
    def sampled(self) -> SampleSettings:
        """Return which part of the steps and calls is recorded."""
        return _ALL

    @property
    def finding_limit(self) -> int:
        """Return after how many findings of the task's judge the collection ends; -1 for never."""
        return self.diff_nums


_ALL = SampleSettings()


class StatisticsSection(Section):
    """task statistics: numbers about every tensor, real data only for ``tensor_list``."""

    inert = frozenset({"bench_path"})

    projection: bool | Literal["auto"] = Field(
        default="auto",
        description="Also record an order-sensitive sum of each tensor, which sees elements that changed places; auto "
        "does so where the pass that measures the statistics gives it too, and summary_mode is statistics.",
    )
    memory: bool = Field(
        default=False,
        description="Also record which memory each tensor lies in, so that msprobe trace follows values through views "
        "and slices (PyTorch; not in static graphs).",
    )
    ring: RingSettings | None = Field(
        default=None,
        description="Keep the last steps in memory and write them on a NaN, a spike, an alert, trigger() or an "
        "exception only (not in static graphs; levels L0, L1, mix); absent writes every step.",
    )
    sample: SampleSettings | None = Field(
        default=None,
        description="Record every Nth step, and a share of the calls (not in static graphs; levels L0, L1, mix).",
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

    @property
    def names_memory(self) -> bool:
        """Return the setting."""
        return self.memory

    @property
    def kept_steps(self) -> RingSettings | None:
        """Return how steps are kept in memory; None where they are written at once."""
        return self.ring

    @property
    def sampled(self) -> SampleSettings:
        """Return which part of the steps and calls is recorded."""
        return self.sample or _ALL


class TensorSection(Section):
    """task tensor: statistics and the real data of every tensor."""

    inert = frozenset({"tensor_list"})

    summary_mode: OneMode = Field(default="statistics", description="statistics, md5 (a CRC-32) or xor.")
    memory: bool = Field(
        default=False,
        description="Also record which memory each tensor lies in, so that msprobe trace follows values through views "
        "and slices (PyTorch; not in static graphs).",
    )
    file_format: Literal["npy", "bin"] = Field(
        default="npy", description="Format of tensor files (MindSpore static graph, level L2)."
    )

    @property
    def names_memory(self) -> bool:
        """Return the setting."""
        return self.memory


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


class FreeBenchmarkSection(Section):
    """task free_benchmark: run calls again under other conditions, without a golden run."""

    inert = frozenset({"tensor_list", "bench_path", "summary_mode", "data_mode", "slice", "request_id", "diff_nums"})

    fuzz_device: Literal["npu", "cpu"] = Field(
        default="npu", description="Where a call runs again: npu is the device of the training, whichever it is."
    )
    pert_mode: Literal["improve_precision", "add_noise", "change_value", "no_change", "bit_noise", "to_cpu"] = Field(
        default="improve_precision", description="What is changed when a call runs again."
    )
    handler_type: Literal["check", "fix"] = Field(
        default="check", description="check reports; fix also gives the program the result of the other run."
    )
    fuzz_level: Literal["L1"] = Field(default="L1", description="Calls of functions.")
    fuzz_stage: Literal["forward", "backward"] = Field(default="forward", description="The pass that is checked.")
    if_preheat: bool = Field(
        default=False, description="With policy reference: fit the threshold of each API in the first steps."
    )
    preheat_step: int = Field(default=15, ge=1, description="How many steps the fit takes.")
    max_sample: int = Field(default=20, ge=1, description="The most calls of an API that a step of the fit looks at.")
    policy: Literal["default", "reference"] = Field(
        default="default",
        description="default: each result by its exact value and the condition of its inputs; reference: the published "
        "ratio and thresholds.",
    )

    @field_validator("names", mode="after")
    @classmethod
    def _entries(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Take full names of functions (``mindspore.ops.bmm``) for the names of their entries."""
        return tuple(map(_entry_name, names))

    @property
    def finding_limit(self) -> int:
        """Return -1: every finding is reported."""
        return -1


_OWNERS = {
    "mindspore.mint.nn.functional": "MintFunctional",
    "mindspore.mint": "Mint",
    "mindspore.ops": "Functional",
    "mindspore.Tensor": "Tensor",
    "torch.nn.functional": "Functional",
    "torch.Tensor": "Tensor",
    "torch": "Torch",
}
"""The prefixes of entries, by the module or class that holds the function."""


def _entry_name(name: str) -> str:
    owner, _, function = name.rpartition(".")
    return f"{_OWNERS[owner]}.{function}." if owner in _OWNERS else name


class OnlineCheckSection(Section):
    """task online_check: run operators again in a higher precision on the CPU while the program runs."""

    inert = FreeBenchmarkSection.inert

    first: int = Field(
        default=3, ge=1, description="How many calls of an operator with the same dtypes and shapes are checked."
    )
    every: int = Field(default=10, ge=1, description="Check in every so manieth of the collected steps.")
    share: float = Field(
        default=0.05, gt=0.0, le=1.0, description="The share of the time of the program that checks may take."
    )
    dump_mode: Literal["OFF", "all", "list", "auto"] = Field(
        default="OFF", description="Tensors kept as files: none, of all checked calls, of those of list, of wrong ones."
    )

    @property
    def finding_limit(self) -> int:
        """Return -1: every finding is reported."""
        return -1


class GradProbeSection(Section):
    """task grad_probe: statistics and signs of gradients at each step of an optimizer (``monitor``)."""

    inert = FreeBenchmarkSection.inert

    grad_level: Literal["L0", "L1", "L2"] = Field(
        default="L1", description="L0 statistics and checksums, L1 statistics and signs, L2 shares of intervals too."
    )
    param_list: Names = Field(default=(), description="Names of parameters; empty for all.")
    bounds: Annotated[tuple[float, ...], Strict(False)] = Field(
        default=(-1.0, 0.0, 1.0), description="Ends of the intervals of L2, ascending."
    )

    @field_validator("bounds", mode="before")
    @classmethod
    def _ascending(cls, bounds: Any) -> Any:
        if not isinstance(bounds, list | tuple):
            return bounds
        if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in bounds):
            raise ValueError("must be a list of numbers")
        if any(left >= right for left, right in itertools.pairwise(bounds)):
            raise ValueError("must be strictly ascending, for example [-1, 0, 1]")
        if not all(abs(one) < 2**63 for one in bounds):
            raise ValueError("must lie within the range of 64-bit integers")
        return tuple(map(float, bounds))
