"""What the documentation says about a configuration on one framework, without that framework being installed.

A backend knows better what it can do here and now; this table serves ``msprobe validate --framework`` on any machine.
"""

from collections.abc import Iterator

from msprobe.core.config.dump_config import DumpConfig
from msprobe.core.errors import Problem
from msprobe.core.naming import ApiName, NameSyntaxError, parse_entry

_EVERYWHERE = frozenset({"statistics", "tensor", "structure"})
TASKS: dict[str, frozenset[str]] = {
    "pytorch": _EVERYWHERE | {"acc_check", "overflow_check", "diff_check", "nan_check"},
    "mindspore": _EVERYWHERE | {"overflow_check", "exception_dump"},
    "msadapter": _EVERYWHERE | {"overflow_check"},
}
_STATIC_LEVELS = ("L0", "L2")
_DYNAMIC_ONLY = "mindspore has it in dynamic graphs"


def framework_problems(config: DumpConfig, framework: str) -> tuple[Problem, ...]:
    """Settings that this framework does not have. ``framework`` is a key of ``TASKS``."""
    if config.task not in TASKS[framework]:
        allowed = ", ".join(sorted(TASKS[framework]))
        return (Problem("task", config.task, f"{framework} does not have this task; allowed: {allowed}"),)
    rules = _pytorch if framework == "pytorch" else _not_pytorch
    return tuple(rules(config, framework))


def _pytorch(config: DumpConfig, framework: str) -> Iterator[Problem]:
    yield from _listed_statistics(config, framework, "statistics, md5 or xor")
    if config.level == "L2":
        yield from _pytorch_kernels(config)


def _listed_statistics(config: DumpConfig, framework: str, taken: str) -> Iterator[Problem]:
    if isinstance(config.section.summary_mode, tuple):
        found = list(config.section.summary_mode)
        expected = f"a list of statistics is for MindSpore static graphs (L0, L2); {framework} takes {taken} here"
        yield Problem(f"{config.task}.summary_mode", found, expected)


def _pytorch_kernels(config: DumpConfig) -> Iterator[Problem]:
    if config.task != "tensor":
        yield Problem("task", config.task, 'level L2 on PyTorch needs "tensor"')
    if config.section.scope:
        yield Problem(f"{config.task}.scope", list(config.section.scope), "must be empty at level L2", kind="scope")
    names = config.section.names
    if len(names) != 1 or not _is_call(names[0]):
        expected = "must hold exactly one full API name at level L2, such as Functional.linear.0.forward"
        yield Problem(f"{config.task}.list", list(names), expected)


def _is_call(name: str) -> bool:
    try:
        return isinstance(parse_entry(name), ApiName)
    except NameSyntaxError:
        return False


def _not_pytorch(config: DumpConfig, framework: str) -> Iterator[Problem]:
    if framework == "msadapter":
        yield from _listed_statistics(config, framework, "statistics or md5")
        if config.section.summary_mode == "xor":
            yield Problem(f"{config.task}.summary_mode", "xor", "msadapter does not have xor; use md5 or statistics")
    else:
        if config.level not in _STATIC_LEVELS:
            yield from _listed_statistics(config, framework, "statistics, md5 or xor")
        if config.level == "L2":
            yield from dynamic_only(config)
    for path, value in _only_of_pytorch(config, framework):
        yield Problem(path, _written(value), f"only PyTorch has it; remove it for {framework}")


def dynamic_only(config: DumpConfig) -> Iterator[Problem]:
    """Settings that MindSpore has where Python runs every call: neither in static graphs nor for kernels."""
    if config.dump_enable is not None:
        yield Problem("dump_enable", config.dump_enable, f"{_DYNAMIC_ONLY}, not for kernels (L2); remove it")
    if config.section.summary_mode == "xor":
        expected = f"{_DYNAMIC_ONLY}, not for kernels (L2); use md5 or statistics"
        yield Problem(f"{config.task}.summary_mode", "xor", expected)
    if config.section.slice:
        yield Problem(f"{config.task}.slice", "...", f"{_DYNAMIC_ONLY}; remove it")


def _only_of_pytorch(config: DumpConfig, framework: str) -> Iterator[tuple[str, object]]:
    common = ("dump_enable", "load") if framework == "msadapter" else ("load",)
    found = [(key, getattr(config, key)) for key in common]
    yield from ((key, value) for key, value in found if value is not None)
    keys = ("slice", "request_id", "bench_path") if framework == "msadapter" else ("request_id", "bench_path")
    section = [(f"{config.task}.{key}", getattr(config.section, key)) for key in keys]
    yield from ((path, value) for path, value in section if value)


def _written(value: object) -> object:
    return value if isinstance(value, bool | str) else "..."
