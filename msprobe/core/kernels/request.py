"""What the runtime is asked to dump (level L2): from our configuration to the JSON that MindSpore reads.

Nothing in here touches the framework: what is known of it comes in as ``RuntimeFacts``. Fields as in MindSpore's own
documentation: ``iteration`` is ``all`` or ``0|2-5``, ``input_output`` 0 both, 1 inputs, 2 outputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.backend.mindspore_modes import KERNEL_SIDES
from msprobe.core.backend.protocols import RuntimeFacts
from msprobe.core.config import DumpConfig

KERNELS = "kernel_kbyk_dump.json"
WHOLE_GRAPH = "kernel_graph_dump.json"
OVERFLOW = "kernel_graph_overflow_check.json"
ON_CPU = "cpu_fallback_"
"""Stands before the name of the second request, the one that a runtime on a CPU can serve."""

NET_NAME = "Net"
_RANKS_WITHOUT_FILTER = list(range(8))
_MD5_ALONE_UP_TO = (2, 7, 0)
_OP_DEBUG_MODE = {"aicore": 1, "atomic": 2, "all": 3}

Document = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """``document`` goes to ``name``: the record of what was asked.

    ``served`` is what the runtime really gets; on a CPU it differs, because statistics and several filters are refused
    or ignored there.
    """

    name: str
    document: Document
    served: Document

    @property
    def served_name(self) -> str:
        return self.name if self.served == self.document else ON_CPU + self.name


def request_of(config: DumpConfig, facts: RuntimeFacts) -> KernelRequest:
    """The request for tasks statistics, tensor and overflow_check at level L2."""
    if config.task == "overflow_check":
        name, document = OVERFLOW, _overflow_document(config)
    elif facts.whole_graph:
        name, document = WHOLE_GRAPH, _whole_graph_document(config, facts)
    else:
        name, document = KERNELS, _kernel_document(config, facts)
    return KernelRequest(name, document, _for_cpu(document) if facts.on_cpu else document)


def common_settings(config: DumpConfig, saved_data: str) -> dict[str, Any]:
    """The fields that every request begins with."""
    ranks = list(config.rank)
    return {
        "dump_mode": 1 if config.section.names else 0,
        "path": os.path.abspath(config.dump_path),
        "net_name": NET_NAME,
        "iteration": "|".join(map(str, config.step.to_list())) or "all",
        "saved_data": saved_data,
        "input_output": KERNEL_SIDES[config.section.data_mode],
        "kernels": list(config.section.names),
        "support_device": ranks or _RANKS_WITHOUT_FILTER,
    }


def transport(config: DumpConfig) -> dict[str, Any]:
    """How the runtime brings data to the host: ``enable`` is the synchronous way."""
    return {"enable": not config.async_dump, "trans_flag": True}


def categories(summary_mode: str | tuple[str, ...], version: tuple[int, ...]) -> list[str]:
    """``summary_mode`` in the runtime's words."""
    md5 = "md5" if version <= _MD5_ALONE_UP_TO else "hash:md5"
    words: Mapping[str, str] = {"mean": "avg", "md5": md5, "hash": "hash" if version > _MD5_ALONE_UP_TO else "md5"}
    if summary_mode == "statistics":
        return ["max", "min", "avg", "l2norm"]
    chosen = (summary_mode,) if isinstance(summary_mode, str) else summary_mode
    return list(dict.fromkeys(words.get(name, name) for name in chosen))


def _kernel_document(config: DumpConfig, facts: RuntimeFacts) -> Document:
    common = common_settings(config, _saved(config))
    common["statistic_category"] = categories(config.section.summary_mode, facts.version)
    return {"common_dump_settings": common, "e2e_dump_settings": _statistics_transport(config)}


def _whole_graph_document(config: DumpConfig, facts: RuntimeFacts) -> Document:
    common = {
        "op_debug_mode": 0,
        **common_settings(config, _saved(config)),
        "file_format": getattr(config.section, "file_format", "npy"),
    }
    if isinstance(config.section.summary_mode, tuple):
        common["statistic_category"] = categories(config.section.summary_mode, facts.version)
    return {"common_dump_settings": common, "e2e_dump_settings": transport(config)}


def _overflow_document(config: DumpConfig) -> Document:
    common = {
        **common_settings(config, "full"),
        "dump_mode": 0,
        "kernels": [],
        "op_debug_mode": _OP_DEBUG_MODE[config.overflow_check.check_mode],
        "file_format": "npy",
    }
    return {"common_dump_settings": common, "e2e_dump_settings": transport(config)}


def _saved(config: DumpConfig) -> str:
    return "statistic" if config.task == "statistics" else "tensor"


def _statistics_transport(config: DumpConfig) -> dict[str, Any]:
    found = transport(config)
    if config.task == "statistics":
        found["stat_calc_mode"] = config.statistics.device
        found["device_stat_precision_mode"] = config.statistics.precision
    return found


def _for_cpu(document: Document) -> Document:
    """The same wish in what a CPU can do: all iterations of every rank as tensors, to be filtered and reduced by us.

    The runtime counts runs of graphs, which are not steps, so its own filter would keep the wrong ones.
    """
    common = {**document["common_dump_settings"], "saved_data": "tensor", "iteration": "all"}
    common.pop("op_debug_mode", None)
    if common.get("file_format"):
        common["file_format"] = "npy"
    return {**document, "common_dump_settings": common}
