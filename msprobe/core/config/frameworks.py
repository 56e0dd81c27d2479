"""What the documentation says about a configuration on one framework, without that framework being installed.

A backend knows better what it can do here and now; this table serves ``msprobe validate --framework`` on any machine.
"""

from collections.abc import Iterator

from msprobe.core.config.dump_config import DumpConfig
from msprobe.core.errors import Problem
from msprobe.core.naming import ApiName, NameSyntaxError, parse_entry

_EVERYWHERE = frozenset({"statistics", "tensor", "structure", "overflow_check", "diff_check", "nan_check"})
TASKS: dict[str, frozenset[str]] = {
    "pytorch": _EVERYWHERE | {"acc_check"},
    "mindspore": _EVERYWHERE | {"exception_dump"},
    "msadapter": _EVERYWHERE,
}
_DYNAMIC_ONLY = "mindspore has it in dynamic graphs"
_OF_EVERY_CALL = frozenset({"max", "min", "mean", "l2norm"})


def framework_problems(config: DumpConfig, framework: str) -> tuple[Problem, ...]:
    """Settings that this framework does not have. ``framework`` is a key of ``TASKS``."""
    if config.task not in TASKS[framework]:
        allowed = ", ".join(sorted(TASKS[framework]))
        return (Problem("task", config.task, f"{framework} does not have this task; allowed: {allowed}"),)
    return tuple(_rules(config, framework))


def _rules(config: DumpConfig, framework: str) -> Iterator[Problem]:
    yield from _listed_statistics(config)
    yield from _loaded_calls(config, "Cell" if framework == "mindspore" else "Module", framework)
    if config.level == "L2":
        yield from _pytorch_kernels(config) if framework == "pytorch" else dynamic_only(config)


def _listed_statistics(config: DumpConfig) -> Iterator[Problem]:
    """Kernels (L2) have more; what those are depends on the runtime."""
    chosen = config.section.summary_mode
    if config.level != "L2" and isinstance(chosen, tuple) and not _OF_EVERY_CALL.issuperset(chosen):
        other = [name for name in chosen if name not in _OF_EVERY_CALL]
        expected = "calls and cells have max, min, mean and l2norm; the others are for kernels (L2) of MindSpore"
        yield Problem(f"{config.task}.summary_mode", other, expected)


def _loaded_calls(config: DumpConfig, prefix: str, framework: str) -> Iterator[Problem]:
    for index, name in enumerate(config.load.modules if config.load is not None else ()):
        if not name.startswith(f"{prefix}."):
            expected = f"{framework} calls it {prefix}.<path>.<Class>.forward.<n>; take the name from its dump"
            yield Problem(f"load.modules[{index}]", name, expected)


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


def dynamic_only(config: DumpConfig) -> Iterator[Problem]:
    """Settings that MindSpore has where Python runs every call: neither in static graphs nor for kernels."""
    if config.section.summary_mode == "xor":
        expected = f"{_DYNAMIC_ONLY}, not for kernels (L2); use md5 or statistics"
        yield Problem(f"{config.task}.summary_mode", "xor", expected)
    common = {key: getattr(config, key) for key in ("dump_enable", "load", "custom_apis")}
    section = {f"{config.task}.{key}": getattr(config.section, key) for key in ("slice", "request_id", "bench_path")}
    for path, value in {**common, **section}.items():
        if value is not None and value != ():
            shown = value if isinstance(value, bool | str) else "..."
            yield Problem(path, shown, f"{_DYNAMIC_ONLY}, not for kernels (L2); remove it")
