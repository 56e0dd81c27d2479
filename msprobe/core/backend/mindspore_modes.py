"""Settings that the present mode of MindSpore cannot serve, found before a training starts.

The mode is dynamic (PYNATIVE_MODE) or static (GRAPH_MODE); a static graph is compiled kernel by kernel (jit_level O0,
O1) or as one piece (O2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from msprobe.core.config import DumpConfig
from msprobe.core.config.fields import ALL_FLOWS
from msprobe.core.errors import Problem

KERNEL_SIDES: Mapping[frozenset[str], int] = {ALL_FLOWS: 0, ALL_FLOWS - {"output"}: 1, ALL_FLOWS - {"input"}: 2}
"""The values of ``data_mode`` that exist for kernels, each with the runtime's number ``input_output`` for it."""

CELL_PHASES = frozenset({ALL_FLOWS, ALL_FLOWS - {"forward"}, ALL_FLOWS - {"backward"}})
"""The values of ``data_mode`` that exist for cells of a static graph."""

STATIC_TASKS = ("statistics", "tensor", "overflow_check", "exception_dump")
"""The tasks of static graphs. The others follow single calls while Python runs them."""

_RUNTIME_PATH = re.compile(r"[A-Za-z0-9_/-]+")
_O2_STATISTICS = frozenset({"max", "min", "mean", "l2norm", "md5"})
_DEVICE_STATISTICS = frozenset({"max", "min", "mean", "l2norm"})
_DYNAMIC_ONLY = "mindspore has it in dynamic graphs"


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The version of MindSpore and how it is set up. What can be collected depends on it.

    Args:
        graph_mode: whether graphs are static (``GRAPH_MODE``).
        jit_level: ``O0``, ``O1`` or ``O2``; "" when the user chose none.
        device: the target device, such as ``CPU`` or ``Ascend``.
        version: the version of MindSpore as numbers, such as ``(2, 10, 0)``.
    """

    graph_mode: bool
    jit_level: str
    device: str
    version: tuple[int, ...]

    @property
    def whole_graph(self) -> bool:
        """Return whether a graph is compiled and run as one piece (O2) and not kernel by kernel."""
        return self.graph_mode and self.jit_level == "O2"

    @property
    def on_cpu(self) -> bool:
        """Return whether the target device is the CPU."""
        return self.device == "CPU"


def mode_problems(config: DumpConfig, facts: RuntimeFacts) -> list[Problem]:
    """Return the settings of ``config`` that do not fit the mode, each with what to do."""
    if config.task_spec.command:
        return []
    problems = list(_static_problems(config, facts) if facts.graph_mode else _dynamic_problems(config))
    if facts.graph_mode and config.task == "exception_dump":
        problems += _path_problems(config)  # a failure has no list, scope and data_mode: see ``exception_document``
    elif watches_kernels(config, facts):
        problems += [*_path_problems(config), *_kernel_problems(config, facts)]
    elif config.level != "L2":
        problems += _kernel_setting_problems(config)
    return problems


def watches_kernels(config: DumpConfig, facts: RuntimeFacts) -> bool:
    """Return whether kernels are recorded that the runtime dumps.

    Task ``exception_dump`` leaves that to the runtime on Ascend, which finds the kernel that fails by itself. On a CPU
    all kernels of a static graph are looked at for it, and in a dynamic graph calls instead of kernels.
    """
    if config.task == "exception_dump":
        return facts.graph_mode and facts.on_cpu
    return config.level == "L2" and config.task_spec.kernels


def call_only_problems(config: DumpConfig) -> Iterator[Problem]:
    """Yield the settings of ``config`` that MindSpore has only where Python runs every call.

    Neither static graphs nor kernels (level L2) have them.
    """
    if config.section.summary_mode == "xor":
        expected = f"{_DYNAMIC_ONLY}, not for kernels (L2); use md5 or statistics"
        yield Problem(f"{config.task}.summary_mode", "xor", expected)
    common = {key: getattr(config, key) for key in ("dump_enable", "load", "custom_apis")}
    keys = "slice", "request_id", "bench_path", "ring", "sample"
    section = {f"{config.task}.{key}": getattr(config.section, key, None) for key in keys}
    for path, value in {**common, **section}.items():
        if value is not None and value != ():
            printed = value if isinstance(value, bool | str) else "..."
            yield Problem(path, printed, f"{_DYNAMIC_ONLY}, not for kernels (L2); remove it")


def _is_one_of(known: Container[frozenset[str]], flows: frozenset[str]) -> bool:
    return flows in known and len(getattr(flows, "written", ())) <= 1


def _written(flows: frozenset[str]) -> list[str]:
    return list(getattr(flows, "written", ())) or sorted(flows)


def _static_problems(config: DumpConfig, facts: RuntimeFacts) -> Iterator[Problem]:
    if config.task not in STATIC_TASKS:
        expected = "works in dynamic graphs; a static graph (GRAPH_MODE) has statistics and tensor"
        yield Problem("task", config.task, expected)
        return
    if config.level != "L2":  # at L2 these settings are refused in every mode (see ``Support.kernel_problems``)
        yield from call_only_problems(config)
    if config.level == "L0" and not _is_one_of(CELL_PHASES, config.section.data_mode):
        written = _written(config.section.data_mode)
        expected = 'cells of a static graph have "all", "forward" or "backward", one of them alone'
        yield Problem(f"{config.task}.data_mode", written, expected)
    if config.level in ("L1", "mix") and config.task != "overflow_check":
        expected = (
            "a static graph (GRAPH_MODE) is collected at L0 (cells) or L2 (kernels); L1 and mix need PYNATIVE_MODE"
        )
        yield Problem("level", config.level, expected)
    if config.task == "overflow_check" and not (config.level == "L2" and facts.jit_level == "O2"):
        state = f"{config.level}, jit_level {facts.jit_level or 'not set'}"
        yield Problem("level", state, 'overflow_check in a static graph needs level L2 and set_context(jit_level="O2")')
    if config.task == "exception_dump" and facts.jit_level == "O2":
        yield Problem(
            "task", "exception_dump", 'needs set_context(jit_level="O0") or "O1"; this graph is compiled at O2'
        )


def _dynamic_problems(config: DumpConfig) -> Iterator[Problem]:
    if config.task == "overflow_check" and config.level == "L2":
        yield Problem("level", "L2", "overflow_check at L2 is for static graphs; in a dynamic graph use L0, L1 or mix")


def _path_problems(config: DumpConfig) -> Iterator[Problem]:
    folder = os.path.abspath(config.dump_path)
    if not _RUNTIME_PATH.fullmatch(folder):
        yield Problem("dump_path", folder, "MindSpore dumps kernels only into paths of letters, digits, -, _ and /")


def _kernel_problems(config: DumpConfig, facts: RuntimeFacts) -> Iterator[Problem]:
    section, task = config.section, config.task
    if not _is_one_of(KERNEL_SIDES, section.data_mode):
        expected = 'kernels have "all", "input" or "output", one of them alone'
        yield Problem(f"{task}.data_mode", _written(section.data_mode), expected)
    if section.scope:
        expected = "must be empty at level L2: choose kernels with list, for example name-regex(Default/fc1.+)"
        yield Problem(f"{task}.scope", list(section.scope), expected, kind="scope")
    yield from _whole_graph_problems(config) if facts.whole_graph else _kernel_by_kernel_problems(config)
    on_device = task == "statistics" and config.statistics.device == "device"
    if on_device and (others := _other_statistics(config, _DEVICE_STATISTICS)):
        expected = "the device computes max, min, mean and l2norm only"
        yield Problem("statistics.summary_mode", others, expected)


def _kernel_setting_problems(config: DumpConfig) -> Iterator[Problem]:
    """Yield settings that only kernels have, in a configuration that records calls and cells."""
    if config.task == "statistics" and config.statistics.device == "device":
        expected = "is for kernels of static graphs (level L2); leave it out"
        yield Problem("statistics.device", "device", expected)
    if config.task == "tensor" and config.tensor.file_format == "bin":
        expected = (
            'is for kernels of static graphs (level L2, jit_level="O2"); leave it out: calls and cells are .npy files'
        )
        yield Problem("tensor.file_format", "bin", expected)
    for index, name in enumerate(config.section.names):
        if name.startswith("name-regex("):
            expected = "names kernels of static graphs (level L2); for calls and cells write a part of their names"
            yield Problem(f"{config.task}.list[{index}]", name, expected)


def _kernel_by_kernel_problems(config: DumpConfig) -> Iterator[Problem]:
    if config.task == "tensor" and config.tensor.file_format == "bin":
        yield Problem("tensor.file_format", "bin", 'is for set_context(jit_level="O2") only; use npy')


def _whole_graph_problems(config: DumpConfig) -> Iterator[Problem]:
    if others := _other_statistics(config, _O2_STATISTICS):
        expected = "graphs compiled at O2 have max, min, mean, l2norm and md5; the others need jit_level O0 or O1"
        yield Problem(f"{config.task}.summary_mode", others, expected)
    if config.task == "statistics" and config.statistics.device == "device":
        yield Problem("statistics.device", "device", "is for jit_level O0 and O1; graphs compiled at O2 use the host")
    for index, name in enumerate(config.section.names):
        if "/" not in name and not re.match(r"name-regex\(", name):
            expected = "graphs compiled at O2 take full kernel names or name-regex(...), no operator types"
            yield Problem(f"{config.task}.list[{index}]", name, expected)


def _other_statistics(config: DumpConfig, available: frozenset[str]) -> list[str]:
    """Return the statistics of a list in ``summary_mode`` that are not ``available``."""
    chosen = config.section.summary_mode
    return [name for name in chosen if name not in available] if isinstance(chosen, tuple) else []
