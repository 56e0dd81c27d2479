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
    """The tasks and levels of a backend, and the options it does not have (yet), each with a word on why."""

    framework: str
    tasks: tuple[str, ...]
    levels: tuple[str, ...]
    missing: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Options that are accepted, as other frameworks have them, and have no effect; the adapter says so."""
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
)

MINDSPORE = Support(
    framework="mindspore",
    mode="dynamic",
    tasks=("statistics", "tensor", "structure", "overflow_check", "exception_dump"),
    levels=("L0", "L1", "L2", "mix", "debug"),
    missing=("custom_apis", "custom_op_namespaces"),
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
    tasks=("statistics", "tensor", "structure", "overflow_check"),
    levels=("L0", "L1", "mix", "debug"),
    missing=("custom_apis", "custom_op_namespaces"),
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
    section = config.section
    asked = {
        "dump_enable": config.dump_enable,
        "load": config.load,
        "async_dump": config.async_dump or None,
        "bench_path": section.bench_path,
        "slice": section.slice or None,
        "request_id": section.request_id,
        "custom_apis": config.custom_apis,
        "custom_op_namespaces": None
        if config.custom_op_namespaces == DEFAULT_NAMESPACES
        else config.custom_op_namespaces,
    }
    problems += [
        Problem(field, asked[field], f"not available for {name} in this version; leave it out")
        for field in support.missing
        if asked[field] is not None
    ]
    if config.task == "diff_check" and not section.bench_path:
        problems.append(Problem("diff_check.bench_path", ABSENT, "is required: the golden dump to compare with"))
    if problems:
        raise ConfigError(problems)
