"""Rules between several fields: errors that must be fixed, and settings that have no effect.

A rule names the fields that it reads (``section.x`` is key x of the active section). It is skipped when one of them is
reported as wrong already, so that one mistake is reported once.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.config.models import TASKS, DumpConfig
from msprobe.core.config.sections import FreeBenchmarkSection
from msprobe.core.errors import ABSENT, Problem

_API_NAME = re.compile(r"(?!(?:Module|Cell)\.)[^.].*\.\d+\.(?:forward|backward)\Z", re.DOTALL)
_MODULE_NAME = re.compile(r"(?:Module|Cell)\..*\.(?:forward|backward)\.\d+\Z", re.DOTALL)
_LOADED_NAME = re.compile(r"(?:Module|Cell)\..+\.forward\.\d+\Z", re.DOTALL)
_NAME_REGEX = re.compile(r"name-regex\((.*)\)\Z", re.DOTALL)
API_EXAMPLE = "Functional.relu.0.forward"
MODULE_EXAMPLE = "Module.conv1.Conv2d.forward.0"
_RECORDING_LEVELS = ("L0", "L1", "mix")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: ``check`` yields the problems of a configuration in which each field of ``reads`` is valid."""

    reads: tuple[str, ...]
    check: Callable[[DumpConfig], Iterator[Problem]]


def broken_rules(config: DumpConfig, failed: Collection[str]) -> list[Problem]:
    """Return the problems between fields.

    Args:
        config: the configuration, with faulty fields at their defaults.
        failed: the paths of these fields, such as ``level`` and ``statistics.scope``.
    """
    problems: list[Problem] = []
    for rule in RULES:
        reads = {read.replace("section.", f"{config.task}.") for read in rule.reads}
        if not reads & set(failed):
            problems.extend(rule.check(config))
    return problems


def _needs_dump_path(config: DumpConfig) -> Iterator[Problem]:
    if not config.dump_path and not config.load_only:
        yield Problem("dump_path", ABSENT, "is required: the directory for the results, in the file or as an argument")


def _scope(config: DumpConfig) -> Iterator[Problem]:
    path, scope = f"{config.task}.scope", config.section.scope
    if not scope:
        return
    if len(scope) != 2:
        yield Problem(
            path, list(scope), "must be empty or hold exactly two names: the first and the last", kind="scope"
        )
    for index, name in enumerate(scope):
        if expected := _scope_fault(name, config.level):
            yield Problem(f"{path}[{index}]", name, expected, _completed(name, config.level), kind="scope")


def _scope_fault(name: str, level: str) -> str | None:
    """Return what an end of the scope must look like at this level; None when ``name`` does."""
    is_api, is_module = bool(_API_NAME.match(name)), bool(_MODULE_NAME.match(name))
    if (is_api and level != "L0") or (is_module and level != "L1"):
        return None
    if level == "L0":
        return f'at level L0 it must be a full module name like "{MODULE_EXAMPLE}"'
    if level == "L1":
        return f'at level L1 it must be a full API name like "{API_EXAMPLE}"; modules need level L0 or mix'
    return f'it must be a full name like "{API_EXAMPLE}" or "{MODULE_EXAMPLE}"'


def _completed(name: str, level: str) -> str | None:
    """Return the name with the ending that users most often leave out."""
    for ending in (".0", ".forward", ".forward.0", ".0.forward"):
        if name and not name.endswith(".") and _scope_fault(name + ending, level) is None:
            return f'"{name}{ending}"'
    return None


def _task_and_level(config: DumpConfig) -> Iterator[Problem]:
    levels = config.task_spec.levels
    if config.level in levels:
        return
    if config.level == "debug" and len(levels) > 1:
        tasks = " or ".join(name for name, spec in TASKS.items() if "debug" in spec.levels)
        yield Problem("level", config.level, f"level debug needs task {tasks}")
    else:
        yield Problem("level", config.level, f"task {config.task} works at level {' or '.join(levels)} only")


def _needed_output(config: DumpConfig) -> Iterator[Problem]:
    if config.task_spec.needs_output and "output" not in config.section.data_mode:
        written = sorted(config.section.data_mode)
        yield Problem(f"{config.task}.data_mode", written, 'must include "output": only results are checked')


def _async_live_compare(config: DumpConfig) -> Iterator[Problem]:
    spec = config.task_spec
    if config.async_dump and spec.async_dump and spec.compares_live and config.section.bench_path is not None:
        yield Problem(
            "async_dump",
            True,
            f"cannot go with {config.task}.bench_path, which judges each call before the next starts; "
            "leave out one of them",
        )


def _other_conditions(config: DumpConfig) -> Iterator[Problem]:
    """Yield what does not go together in section ``free_benchmark``."""
    section, path = config.section, config.task
    if not isinstance(section, FreeBenchmarkSection):
        return
    mode, device = section.pert_mode, section.fuzz_device
    if device == "cpu" and mode != "to_cpu":
        yield Problem(f"{path}.fuzz_device", device, 'needs pert_mode "to_cpu"; other modes run on the device ("npu")')
    elif device != "cpu" and mode == "to_cpu" and "fuzz_device" in section.model_fields_set:
        yield Problem(f"{path}.fuzz_device", device, 'must be "cpu" with pert_mode "to_cpu"')
    if section.fuzz_stage == "backward" and not section.names:
        yield Problem(f"{path}.list", [], 'must name APIs with fuzz_stage "backward", for example ["matmul"]')
    if section.handler_type != "fix":
        return
    if section.fuzz_stage != "forward":
        yield Problem(f"{path}.fuzz_stage", section.fuzz_stage, 'must be "forward" with handler_type "fix"')
    if section.if_preheat:
        yield Problem(f"{path}.if_preheat", True, 'must be false with handler_type "fix"')
    if mode not in ("improve_precision", "to_cpu"):
        yield Problem(f"{path}.pert_mode", mode, 'must be "improve_precision" or "to_cpu" with handler_type "fix"')


def _ring(config: DumpConfig) -> Iterator[Problem]:
    """Yield what cannot go together with steps that are kept in memory."""
    ring, section = config.section.kept_steps, config.section
    if ring is None:
        return
    if section.tensor_list:
        expected = f"cannot go with {config.task}.ring, which keeps statistics only; leave out one of them"
        yield Problem(f"{config.task}.tensor_list", list(section.tensor_list), expected)
    watched = [kind for kind in ring.on if kind in ("nan", "spike")]
    if section.summary_mode == "xor" and len(watched) == len(ring.on):
        expected = 'needs statistics: a checksum shows no NaN and no spike; use summary_mode "statistics" or "md5"'
        yield Problem(f"{config.task}.ring.on", list(ring.on), expected)


def _list_names(key: str, attribute: str) -> Rule:
    def check(config: DumpConfig) -> Iterator[Problem]:
        for index, name in enumerate(getattr(config.section, attribute)):
            if fault := _pattern_fault(name):
                yield Problem(f"{config.task}.{key}[{index}]", name, fault)

    return Rule((f"section.{key}",), check)


def _pattern_fault(name: str) -> str | None:
    if not name.strip():
        return "an empty name is part of every name; remove it"
    regex = _NAME_REGEX.match(name)
    if regex is None:
        return None
    try:
        re.compile(regex[1])
    except (re.error, RecursionError, OverflowError) as error:
        return f"the regular expression is not valid: {error}"
    return None


def _loaded_modules(config: DumpConfig) -> Iterator[Problem]:
    names = (config.load.modules if config.load else None) or ()
    for index, name in enumerate(names):
        if not _LOADED_NAME.match(name):
            yield Problem(f"load.modules[{index}]", name, f'must be a full forward name like "{MODULE_EXAMPLE}"')
        elif name in names[:index]:
            yield Problem(f"load.modules[{index}]", name, "stands there twice; remove one")


def _custom_apis(config: DumpConfig) -> Iterator[Problem]:
    if isinstance(config.custom_apis, Mapping):
        yield from module_name_problems("custom_apis", config.custom_apis)


def module_name_problems(path: str, names: Iterable[str]) -> list[Problem]:
    """Return a problem for each of the ``names`` under which nothing can be imported."""
    expected = "must be the full name of a module or class, such as package.module"
    return [Problem(path, name, expected) for name in names if not all(map(str.isidentifier, name.split(".")))]


RULES: tuple[Rule, ...] = (
    Rule(("dump_path", "load"), _needs_dump_path),
    Rule(("task", "level"), _task_and_level),
    Rule(("task", "level", "section.scope"), _scope),
    _list_names("list", "names"),
    _list_names("tensor_list", "tensor_list"),
    Rule(("section.data_mode",), _needed_output),
    Rule(("section.ring", "section.tensor_list", "section.summary_mode"), _ring),
    Rule(("task", "async_dump", "section.bench_path"), _async_live_compare),
    Rule(
        ("task", *(f"section.{key}" for key in ("pert_mode", "fuzz_device", "fuzz_stage", "handler_type", "list"))),
        _other_conditions,
    ),
    Rule(("load",), _loaded_modules),
    Rule(("custom_apis",), _custom_apis),
)


def replace_unused(config: DumpConfig, written: Collection[str]) -> tuple[DumpConfig, list[str]]:
    """Replace settings that cannot take effect; return the configuration and one warning for each of them.

    Args:
        config: the configuration.
        written: the top-level keys that the user wrote, so that there is no warning about a default.
    """
    warnings: list[str] = []
    level = _usable_level(config, written, warnings)
    if level != config.level:
        config = config.model_copy(update={"level": level})
    dropped = dict(_unused_section_keys(config, warnings))
    if dropped:
        section = config.section.model_copy(update=dropped)
        config = config.model_copy(update={config.task: section})
    _warn_unused_common(config, warnings)
    return config, warnings


def _usable_level(config: DumpConfig, written: Collection[str], warnings: list[str]) -> str:
    spec = config.task_spec
    if "level" not in written:
        return spec.default_level
    if spec.settles_level and config.level not in spec.levels:
        levels, default = " or ".join(spec.levels), spec.default_level
        warnings.append(f"level: task {config.task} works at {levels}, not {config.level}; using {default}")
        return default
    return config.level


def _unused_section_keys(config: DumpConfig, warnings: list[str]) -> Iterator[tuple[str, Any]]:
    unused: tuple[tuple[str, tuple[()] | None], ...] = (
        ("tensor_list", ()),
        ("slice", ()),
        ("ring", None),
        ("sample", None),
    )
    for key, unset in unused:
        if config.level not in _RECORDING_LEVELS and getattr(config.section, key, None):
            warnings.append(f"{config.task}.{key}: has no effect at level {config.level}; it works at L0, L1 and mix")
            yield key, unset


def _warn_unused_common(config: DumpConfig, warnings: list[str]) -> None:
    if config.async_dump and not config.task_spec.async_dump and config.level != "L2":  # at L2 the runtime decides
        warnings.append("async_dump: has no effect; it works for tasks statistics and tensor at L0, L1, mix and debug")
    if config.level == "L2" and config.disk_budget is not None:
        warnings.append("disk_budget: has no effect at level L2, where the framework writes; it works at other levels")
    if config.level in {"L0", "debug"} and config.custom_apis is not None:
        warnings.append(f"custom_apis: has no effect at level {config.level}; it works where functions are recorded")
    if config.risk_level == "CORE" and config.level not in {"L1", "mix"}:
        warnings.append(f"risk_level: has no effect at level {config.level}; it works at L1 and mix")
