"""What a backend can do of what a configuration may ask.

Asked before anything runs, so that nothing is silently ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msprobe.core.config import DumpConfig
from msprobe.core.config.frameworks import framework_problems
from msprobe.core.errors import ABSENT, ConfigError, Problem
from msprobe.core.kernels.request import RuntimeFacts

DEFAULT_NAMESPACES = ("_C_ascend",)


@dataclass(frozen=True, slots=True)
class Support:
    """The tasks and levels of a backend, and the options it does not have."""

    framework: str
    tasks: tuple[str, ...]
    levels: tuple[str, ...]
    namespaces: bool = True
    """Whether operators have namespaces (``torch.ops``)."""
    ignored: tuple[str, ...] = ()
    """Options that are accepted, as other frameworks have them, and have no effect; the adapter says so."""
    idle_at_kernels: tuple[str, ...] = ()
    """Options that are accepted at level L2, and have no effect there; the session says so."""
    mode: str = ""
    facts: RuntimeFacts | None = None
    """How MindSpore stands in this mode; what does not fit it is refused (``mindspore_modes``)."""

    @property
    def name(self) -> str:
        """As the support matrix shows it, ``mindspore dynamic``; ``framework`` is the name in messages."""
        return f"{self.framework} {self.mode}".strip()


PYTORCH = Support(
    framework="pytorch",
    tasks=("statistics", "tensor", "structure", "overflow_check", "nan_check", "diff_check"),
    levels=("L0", "L1", "L2", "mix", "debug"),
    idle_at_kernels=("async_dump",),
)

MINDSPORE = Support(
    framework="mindspore",
    mode="dynamic",
    tasks=("statistics", "tensor", "structure", "overflow_check", "nan_check", "diff_check", "exception_dump"),
    levels=("L0", "L1", "L2", "mix", "debug"),
    namespaces=False,
    ignored=("risk_level",),
    facts=RuntimeFacts(graph_mode=False, jit_level="", device="Ascend", version=(2, 10, 0)),
)

MINDSPORE_STATIC = replace(
    MINDSPORE,
    mode="static O0/O1",
    tasks=("statistics", "tensor", "exception_dump"),
    levels=("L0", "L2", "debug"),
    facts=RuntimeFacts(graph_mode=True, jit_level="O0", device="Ascend", version=(2, 10, 0)),
)

MINDSPORE_WHOLE_GRAPH = replace(
    MINDSPORE_STATIC,
    mode="static O2",
    tasks=("statistics", "tensor", "overflow_check"),
    facts=RuntimeFacts(graph_mode=True, jit_level="O2", device="Ascend", version=(2, 10, 0)),
)

MSADAPTER = Support(
    framework="msadapter",
    tasks=("statistics", "tensor", "structure", "overflow_check", "nan_check", "diff_check"),
    levels=("L0", "L1", "mix", "debug"),
    namespaces=False,
)

ALL = (PYTORCH, MINDSPORE, MINDSPORE_STATIC, MINDSPORE_WHOLE_GRAPH, MSADAPTER)


def check_support(config: DumpConfig, support: Support) -> None:
    """Raise one ConfigError that names every field of ``config`` the backend cannot serve."""
    name = support.framework
    problems = list(framework_problems(config, name)) if config.task in support.tasks else []
    if config.task not in support.tasks:
        problems.append(Problem("task", config.task, f"{name} collects {', '.join(support.tasks)}"))
    elif config.level not in support.levels:
        problems.append(Problem("level", config.level, f"{name} collects at {', '.join(support.levels)}"))
    if config.custom_op_namespaces != DEFAULT_NAMESPACES and not support.namespaces:
        expected = f"names operators of torch.ops, which {name} does not have; leave it out, or use custom_apis"
        problems.append(Problem("custom_op_namespaces", list(config.custom_op_namespaces), expected))
    if config.task == "diff_check" and not config.section.bench_path:
        problems.append(Problem("diff_check.bench_path", ABSENT, "is required: the golden dump to compare with"))
    if problems:
        raise ConfigError(problems)
