"""Convert the configuration to the JSON that says what MindSpore's runtime dumps.

``request_of`` serves level L2. ``exception_document`` and the two functions below it serve task ``exception_dump``,
which asks for the operands of the kernel that failed.

This module does not import the framework: its state is passed in as ``RuntimeFacts``. The fields are those of
MindSpore's documentation of its dump settings: ``iteration`` is ``all`` or ``0|2-5``, ``input_output`` is 0 for both, 1
for inputs and 2 for outputs, and ``op_debug_mode`` 4 means "only kernels that failed".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.backend.mindspore_modes import KERNEL_SIDES, RuntimeFacts
from msprobe.core.config import DumpConfig
from msprobe.core.store.safe_files import make_folder, write_atomic

KERNELS = "kernel_kbyk_dump.json"
WHOLE_GRAPH = "kernel_graph_dump.json"
OVERFLOW = "kernel_graph_overflow_check.json"
ON_CPU = "cpu_fallback_"
"""Prefix of the name of the second request, which a runtime on a CPU can serve."""

EXCEPTION_REQUEST = "kernel_graph_exception_dump.json"
OTHER_EXCEPTION_REQUEST = "kernel_graph_exception_check.json"
"""The name in other versions of the tool."""

NET_NAME = "Net"
_RANKS_WITHOUT_FILTER = list(range(8))
_MD5_ALONE_UP_TO = (2, 7, 0)
_OP_DEBUG_MODE = {"aicore": 1, "atomic": 2, "all": 3}

Document = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """A request to the runtime.

    Args:
        name: the name of the file of ``document``.
        document: what the configuration asks for; it is written as a record of that.
        served: what the runtime gets. On a CPU it differs, because the runtime refuses statistics there and ignores
            several filters.
    """

    name: str
    document: Document
    served: Document

    @property
    def served_name(self) -> str:
        """The name of the file that the runtime reads."""
        return self.name if self.served == self.document else ON_CPU + self.name


def request_of(config: DumpConfig, facts: RuntimeFacts) -> KernelRequest:
    """Return the request for a task that records kernels at level L2."""
    if config.task == "exception_dump":
        name, document = EXCEPTION_REQUEST, exception_document(config)
    elif config.task == "overflow_check":
        name, document = OVERFLOW, _overflow_document(config)
    elif facts.whole_graph:
        name, document = WHOLE_GRAPH, _whole_graph_document(config, facts)
    else:
        name, document = KERNELS, _kernel_document(config, facts)
    return KernelRequest(name, document, _for_cpu(document) if facts.on_cpu else document)


def common_settings(config: DumpConfig, saved_data: str) -> dict[str, Any]:
    """Return the fields that every request begins with."""
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
    """Return how the runtime copies data to the host: ``enable`` means synchronously."""
    return {"enable": not config.async_dump, "trans_flag": True}


def categories(summary_mode: str | tuple[str, ...], version: tuple[int, ...]) -> list[str]:
    """Return ``summary_mode`` as the names of the runtime."""
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
    settings = transport(config)
    if config.task == "statistics":
        settings["stat_calc_mode"] = config.statistics.device
        settings["device_stat_precision_mode"] = config.statistics.precision
    return settings


def _for_cpu(document: Document) -> Document:
    """Return the request in the form that a CPU can serve: the tensors of all iterations of every rank.

    They are filtered and reduced when they are imported. The runtime counts runs of graphs, which are not steps, so its
    own filter would keep the wrong ones.
    """
    common = {**document["common_dump_settings"], "saved_data": "tensor", "iteration": "all"}
    common.pop("op_debug_mode", None)
    if common.get("file_format"):
        common["file_format"] = "npy"
    return {**document, "common_dump_settings": common}


def exception_document(config: DumpConfig) -> Document:
    """Return the request of task ``exception_dump``.

    It has no ``list``, ``data_mode`` and ``step``, which have no meaning for a failure.
    """
    return {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(Path(config.dump_path).absolute()),
            "net_name": NET_NAME,
            "iteration": "all",
            "saved_data": "tensor",
            "input_output": 0,
            "kernels": [],
            "support_device": list(config.rank) or _RANKS_WITHOUT_FILTER,
            "op_debug_mode": 4,
            "file_format": "npy",
        },
        "e2e_dump_settings": transport(config),
    }


def write_exception_request(config: DumpConfig) -> Path:
    """Write the request into ``dump_path`` and return its absolute path. Raises OSError."""
    folder = Path(config.dump_path).absolute()
    make_folder(folder)
    path = folder / EXCEPTION_REQUEST
    write_atomic(path, [json.dumps(exception_document(config), indent=4).encode()])
    return path


def find_exception_request(folder: Path) -> Path | None:
    """Return the request in ``folder``, under one of its two names; None when there is none."""
    return next(
        (path for name in (EXCEPTION_REQUEST, OTHER_EXCEPTION_REQUEST) if (path := folder / name).is_file()), None
    )
