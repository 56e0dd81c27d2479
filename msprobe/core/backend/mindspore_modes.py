"""What cannot be collected in the mode that MindSpore is in, said before training starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from msprobe.core.config import DumpConfig
from msprobe.core.config.frameworks import dynamic_only
from msprobe.core.errors import Problem
from msprobe.core.kernels.request import RuntimeFacts, sides

_ACCEPTED = re.compile(r"[A-Za-z0-9_/-]+")
_O2_STATISTICS = frozenset({"max", "min", "mean", "l2norm", "md5"})
_DEVICE_STATISTICS = frozenset({"max", "min", "mean", "l2norm"})
_WATCHING = ("structure", "diff_check", "nan_check")
"""Tasks that follow single calls while Python runs them."""


def mode_problems(config: DumpConfig, facts: RuntimeFacts) -> list[Problem]:
    """Settings of ``config`` that do not fit the mode, each with what to do."""
    found = list(_graph_rules(config, facts) if facts.graph_mode else _dynamic_rules(config))
    if config.level == "L2" and config.task in ("statistics", "tensor", "overflow_check"):
        found += _kernel_rules(config, facts)
    elif config.level != "L2":
        found += _of_kernels_alone(config)
    return found


def _graph_rules(config: DumpConfig, facts: RuntimeFacts) -> Iterator[Problem]:
    if config.task in _WATCHING:
        expected = "works in dynamic graphs; a static graph (GRAPH_MODE) has statistics and tensor"
        yield Problem("task", config.task, expected)
        return
    if config.level != "L2":  # there it is refused in every mode
        yield from dynamic_only(config)
    if config.level in ("L1", "mix") and config.task != "overflow_check":
        expected = (
            "a static graph (GRAPH_MODE) is collected at L0 (cells) or L2 (kernels); L1 and mix need PYNATIVE_MODE"
        )
        yield Problem("level", config.level, expected)
    if config.task == "overflow_check" and not (config.level == "L2" and facts.jit_level == "O2"):
        found = f"{config.level}, jit_level {facts.jit_level or 'not set'}"
        yield Problem("level", found, 'overflow_check in a static graph needs level L2 and set_context(jit_level="O2")')
    if config.task == "exception_dump" and facts.jit_level == "O2":
        yield Problem(
            "task", "exception_dump", 'needs set_context(jit_level="O0") or "O1"; this graph is compiled at O2'
        )


def _dynamic_rules(config: DumpConfig) -> Iterator[Problem]:
    if config.task == "overflow_check" and config.level == "L2":
        yield Problem("level", "L2", "overflow_check at L2 is for static graphs; in a dynamic graph use L0, L1 or mix")


def _kernel_rules(config: DumpConfig, facts: RuntimeFacts) -> Iterator[Problem]:
    section, task = config.section, config.task
    folder = os.path.abspath(config.dump_path)
    if not _ACCEPTED.fullmatch(folder):
        yield Problem("dump_path", folder, "MindSpore dumps kernels only into paths of letters, digits, -, _ and /")
    try:
        sides(config)
    except KeyError:
        expected = 'kernels have "all", "input" or "output", one of them alone'
        yield Problem(f"{task}.data_mode", sorted(section.data_mode), expected)
    if section.scope:
        expected = "must be empty at level L2: choose kernels with list, for example name-regex(Default/fc1.+)"
        yield Problem(f"{task}.scope", list(section.scope), expected, kind="scope")
    yield from _only_whole_graph(config) if not facts.whole_graph else _not_whole_graph(config)
    if (
        task == "statistics"
        and config.statistics.device == "device"
        and (other := _unknown(config, _DEVICE_STATISTICS))
    ):
        yield Problem("statistics.summary_mode", other, "the device computes max, min, mean and l2norm only")


def _of_kernels_alone(config: DumpConfig) -> Iterator[Problem]:
    """What the runtime does for kernels, and nobody for calls and cells."""
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


def _only_whole_graph(config: DumpConfig) -> Iterator[Problem]:
    if config.task == "tensor" and config.tensor.file_format == "bin":
        yield Problem("tensor.file_format", "bin", 'is for set_context(jit_level="O2") only; use npy')


def _not_whole_graph(config: DumpConfig) -> Iterator[Problem]:
    if other := _unknown(config, _O2_STATISTICS):
        expected = "graphs compiled at O2 have max, min, mean, l2norm and md5; the others need jit_level O0 or O1"
        yield Problem(f"{config.task}.summary_mode", other, expected)
    if config.task == "statistics" and config.statistics.device == "device":
        yield Problem("statistics.device", "device", "is for jit_level O0 and O1; graphs compiled at O2 use the host")
    for index, name in enumerate(config.section.names):
        if "/" not in name and not re.match(r"name-regex\(", name):
            expected = "graphs compiled at O2 take full kernel names or name-regex(...), no operator types"
            yield Problem(f"{config.task}.list[{index}]", name, expected)


def _unknown(config: DumpConfig, known: frozenset[str]) -> list[str]:
    chosen = config.section.summary_mode
    return [name for name in chosen if name not in known] if isinstance(chosen, tuple) else []
