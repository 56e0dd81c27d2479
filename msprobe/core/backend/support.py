"""The one table of what each framework supports: tasks, levels and options.

``msprobe validate``, ``doctor`` and ``support``, every ``PrecisionDebugger`` and the page ``docs/support.md`` read it.
So all of them give one answer, and none of them needs the framework to be installed. A configuration is checked before
anything runs, so that no setting is ignored in silence.

To add a framework, add its ``Support`` here and to ``SUPPORTS``; its debugger names the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from msprobe.core.backend.mindspore_modes import STATIC_TASKS, RuntimeFacts, call_only_problems, mode_problems
from msprobe.core.config import DumpConfig
from msprobe.core.errors import ABSENT, ConfigError, Problem
from msprobe.core.naming import ApiName, NameSyntaxError, parse_entry
from msprobe.core.tensors.statistics import STATISTICS

DEFAULT_NAMESPACES = ("_C_ascend",)
_CALL_STATISTICS = tuple(spec.config_name for spec in STATISTICS)
FURTHER_KEYS = (
    *("optimizers", "gradient_calls", "shared_storage", "process_groups", "parameters_after_step", "gradients_of_step"),
    *("reads", "moves", "training", "autograd", "group_id", "shard", "scheduled_tokens"),
    *("training_calls", "model_parameters", "autocast", "attributes"),
)
"""What a dump can say beside the values of its calls, and not of every framework."""
WATCHES = ("TrainerMon", "TrainerMonitorV2", "grad_probe")
"""What watches a training over its steps."""
_CALL_TASKS = ("statistics", "tensor", "structure", "overflow_check", "nan_check", "diff_check")
"""Tasks that every framework has in which Python runs each call."""
_CHECKS = ("free_benchmark", "online_check")
"""Tasks that run calls again while the program runs."""


@dataclass(frozen=True, slots=True)
class Support:
    """What one framework, in one of its modes, can be asked for.

    Args:
        framework: its name for ``--framework`` and in messages.
        tasks: the tasks it has (keys of ``TASKS``).
        levels: the levels it has.
        mode: the mode that this is about; "" for a framework with one mode.
        dump_name: how dump.json names the framework where that differs from ``framework``.
        namespaces: whether operators have namespaces (``torch.ops``).
        module_prefix: the first part of the names of its modules.
        ignored: options that are accepted, because other frameworks have them, and have no effect. The adapter warns.
        ignored_at_kernels: options that are accepted at level L2 and have no effect there. The session warns.
        kernel_list: a ``list`` that selects something at level L2.
        kernel_problems: finds the settings that do not work at level L2 of this framework.
        runtime_kernels: whether the runtime dumps kernels by itself at level L2 (``Backend.kernel_dump``).
        perturbs: whether it can move the parameters and inputs of a model (``Backend.perturb``).
        facts: the state of MindSpore in this mode. ``mode_problems`` finds what does not fit it.
        lacking_keys: those of ``FURTHER_KEYS`` that its dumps never have.
        unwatched: those of ``WATCHES`` that refuse it.
    """

    framework: str
    tasks: tuple[str, ...]
    levels: tuple[str, ...]
    mode: str = ""
    dump_name: str = ""
    namespaces: bool = True
    module_prefix: str = "Module"
    ignored: tuple[str, ...] = ()
    ignored_at_kernels: tuple[str, ...] = ()
    kernel_list: tuple[str, ...] = ()
    kernel_problems: Callable[[DumpConfig], Iterator[Problem]] | None = None
    runtime_kernels: bool = False
    perturbs: bool = False
    facts: RuntimeFacts | None = None
    lacking_keys: tuple[str, ...] = ()
    unwatched: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name in the support matrix, such as ``mindspore dynamic``."""
        return f"{self.framework} {self.mode}".strip()


def _one_call_problems(config: DumpConfig) -> Iterator[Problem]:
    """Yield what PyTorch lacks at level L2, where the kernels of one chosen call are recorded."""
    if config.task != "tensor":
        yield Problem("task", config.task, 'level L2 on PyTorch needs "tensor"')
    if config.section.scope:
        yield Problem(f"{config.task}.scope", list(config.section.scope), "must be empty at level L2", kind="scope")
    names = config.section.names
    if len(names) != 1 or not _is_api_call(names[0]):
        expected = "must hold exactly one full API name at level L2, such as Functional.linear.0.forward"
        yield Problem(f"{config.task}.list", list(names), expected)


def _is_api_call(name: str) -> bool:
    try:
        return isinstance(parse_entry(name), ApiName)
    except NameSyntaxError:
        return False


PYTORCH = Support(
    framework="pytorch",
    tasks=(*_CALL_TASKS, *_CHECKS),
    levels=("L0", "L1", "L2", "mix", "debug"),
    ignored_at_kernels=("async_dump",),
    kernel_list=("Functional.linear.0.forward",),
    kernel_problems=_one_call_problems,
    perturbs=True,
    lacking_keys=("attributes",),
)

MINDSPORE = Support(
    framework="mindspore",
    mode="dynamic",
    tasks=(*_CALL_TASKS, *_CHECKS, "exception_dump"),
    levels=("L0", "L1", "L2", "mix", "debug"),
    namespaces=False,
    module_prefix="Cell",
    ignored=("risk_level",),
    kernel_list=("name-regex(Default/.+)",),
    kernel_problems=call_only_problems,
    runtime_kernels=True,
    facts=RuntimeFacts(graph_mode=False, jit_level="", device="Ascend", version=(2, 10, 0)),
    lacking_keys=("gradient_calls", "reads", "moves", "gradients_of_step", "autocast"),
)

MINDSPORE_STATIC = replace(
    MINDSPORE,
    mode="static O0/O1",
    tasks=tuple(task for task in STATIC_TASKS if task != "overflow_check"),
    levels=("L0", "L2", "debug"),
    facts=RuntimeFacts(graph_mode=True, jit_level="O0", device="Ascend", version=(2, 10, 0)),
    lacking_keys=(
        "optimizers",
        "gradient_calls",
        "reads",
        "moves",
        "process_groups",
        "gradients_of_step",
        "training_calls",
        "model_parameters",
        "autocast",
        "attributes",
        "autograd",
        "group_id",
        "shard",
    ),
    unwatched=("TrainerMon", "TrainerMonitorV2"),
)

MINDSPORE_WHOLE_GRAPH = replace(
    MINDSPORE_STATIC,
    mode="static O2",
    tasks=tuple(task for task in STATIC_TASKS if task != "exception_dump"),
    facts=RuntimeFacts(graph_mode=True, jit_level="O2", device="Ascend", version=(2, 10, 0)),
)

MSADAPTER = Support(
    framework="msadapter",
    dump_name="mindtorch",
    tasks=_CALL_TASKS,
    levels=("L0", "L1", "mix", "debug"),
    namespaces=False,
    lacking_keys=("gradient_calls", "reads", "moves", "gradients_of_step", "shard", "autocast", "attributes"),
)

SUPPORTS = (PYTORCH, MINDSPORE, MINDSPORE_STATIC, MINDSPORE_WHOLE_GRAPH, MSADAPTER)
"""Every framework; one with several modes has one entry for each, the usual one first."""
FRAMEWORKS = tuple(dict.fromkeys(support.framework for support in SUPPORTS))
"""The names of the frameworks in the order of ``SUPPORTS``."""


def supports_of(framework: str | None) -> tuple[Support, ...]:
    """Return the entries of a framework, one for each of its modes; none for an unknown name.

    Args:
        framework: its name, or the name in the header of its dumps, in upper or lower case.
    """
    name = str(framework).lower()
    return tuple(support for support in SUPPORTS if name in (support.framework, support.dump_name))


def support_problems(config: DumpConfig, support: Support) -> list[Problem]:
    """Return every field of ``config`` that the framework cannot serve, without regard to its mode."""
    name = support.framework
    problems: list[Problem] = []
    if config.task_spec.command:
        return problems
    if config.task not in support.tasks:
        problems.append(Problem("task", config.task, f"{name} collects {', '.join(support.tasks)}"))
    else:
        problems += _option_problems(config, support)
        if config.level not in support.levels:
            problems.append(Problem("level", config.level, f"{name} collects at {', '.join(support.levels)}"))
    if config.custom_op_namespaces != DEFAULT_NAMESPACES and not support.namespaces:
        expected = f"names operators of torch.ops, which {name} does not have; leave it out, or use custom_apis"
        problems.append(Problem("custom_op_namespaces", list(config.custom_op_namespaces), expected))
    if config.perturb is not None and not support.perturbs:
        expected = f"{name} cannot move the parameters of a model; leave it out"
        problems.append(Problem("perturb", config.perturb, expected))
    if config.task_spec.needs_bench_path and not config.section.bench_path:
        expected = "is required: the golden dump to compare with"
        problems.append(Problem(f"{config.task}.bench_path", ABSENT, expected))
    return problems


def check_support(config: DumpConfig, support: Support) -> None:
    """Check that the framework can serve ``config``, without regard to its mode.

    Raises:
        ConfigError: it cannot. The error names every field that must change.
    """
    problems = support_problems(config, support)
    if problems:
        raise ConfigError(problems)


def framework_problems(config: DumpConfig, framework: str) -> list[Problem]:
    """Return what keeps ``framework`` from serving ``config`` in any of its modes; nothing when one mode can.

    Args:
        framework: a name in ``FRAMEWORKS``.
    """
    found = [_problems_in_mode(config, support) for support in supports_of(framework)]
    return found[0] if all(found) else []


def refusals(config: DumpConfig, frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, list[Problem]]:
    """Return the problems of each of ``frameworks`` that cannot serve ``config`` in any of its modes."""
    found = {framework: framework_problems(config, framework) for framework in frameworks}
    return {framework: problems for framework, problems in found.items() if problems}


def mode_refusals(config: DumpConfig, framework: str) -> dict[str, list[Problem]]:
    """Return the problems of each mode of ``framework`` that cannot serve ``config``, by the name of the mode."""
    found = {support.name: _problems_in_mode(config, support) for support in supports_of(framework)}
    return {mode: problems for mode, problems in found.items() if problems}


def _problems_in_mode(config: DumpConfig, support: Support) -> list[Problem]:
    problems = support_problems(config, support)
    if problems or support.facts is None:
        return problems
    return mode_problems(config, support.facts)


def _option_problems(config: DumpConfig, support: Support) -> Iterator[Problem]:
    chosen = config.section.summary_mode
    if config.level != "L2" and isinstance(chosen, tuple) and not set(chosen).issubset(_CALL_STATISTICS):
        others = [name for name in chosen if name not in _CALL_STATISTICS]  # kernels (L2) have more statistics
        words = f"{', '.join(_CALL_STATISTICS[:-1])} and {_CALL_STATISTICS[-1]}"
        expected = f"calls and cells have {words}; the others are for kernels (L2) of MindSpore"
        yield Problem(f"{config.task}.summary_mode", others, expected)
    prefix = support.module_prefix
    for index, name in enumerate((config.load.modules if config.load is not None else None) or ()):
        if not name.startswith(f"{prefix}."):
            expected = f"{support.framework} calls it {prefix}.<path>.<Class>.forward.<n>; take the name from its dump"
            yield Problem(f"load.modules[{index}]", name, expected)
    if config.level == "L2" and support.kernel_problems is not None:
        yield from support.kernel_problems(config)
