"""Configurations that do not fit, each tried on the real debugger: refusals.py FOLDER. Says what was raised as JSON."""

import json
import sys
from typing import Any

LIST = {"summary_mode": ["max", "nan count"]}
LOAD = {"path": ".", "modules": ["Module.a.A.forward.0"]}
DIFFERENCES = {"level": "L0", "task": "diff_check", "diff_check": {"bench_path": "."}}
GOLDEN = {"level": "L0", "task": "tensor", "tensor": {"bench_path": "."}}
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    # what: mode, configuration, field named in the message, what to do
    "L1 in a static graph": ("O0", {"level": "L1"}, "level", "L0 (cells) or L2 (kernels)"),
    "mix in a static graph": ("O2", {"level": "mix"}, "level", "L0 (cells) or L2 (kernels)"),
    "structure in a static graph": ("O0", {"level": "L0", "task": "structure"}, "task", "dynamic graphs"),
    "overflow_check at O0": ("O0", {"level": "L2", "task": "overflow_check"}, "level", 'jit_level="O2"'),
    "overflow_check of cells": ("O2", {"level": "L0", "task": "overflow_check"}, "level", "level L2"),
    "exception_dump at O2": ("O2", {"level": "L2", "task": "exception_dump"}, "task", '"O0") or "O1"'),
    "exception_dump at L1": ("", {"level": "L1", "task": "exception_dump"}, "level", "level L2 only"),
    "binary files at O0": (
        "O0",
        {"level": "L2", "task": "tensor", "tensor": {"file_format": "bin"}},
        "file_format",
        "npy",
    ),
    "operator types at O2": ("O2", {"level": "L2", "statistics": {"list": ["MatMul"]}}, "list[0]", "name-regex"),
    "counts at O2": ("O2", {"level": "L2", "statistics": {"summary_mode": ["count"]}}, "summary_mode", "O0 or O1"),
    "counts of cells": ("O0", {"level": "L0", "statistics": {"summary_mode": ["count"]}}, "summary_mode", "l2norm"),
    "one direction of kernels": ("O0", {"level": "L2", "statistics": {"data_mode": ["forward"]}}, "data_mode", "input"),
    "counts at L1": ("", {"level": "L1", "statistics": LIST}, "summary_mode", "kernels (L2)"),
    "overflow_check of kernels": ("", {"level": "L2", "task": "overflow_check"}, "level", "L0, L1 or mix"),
    "operators of torch": ("", {"level": "L1", "custom_op_namespaces": ["mine"]}, "custom_op_namespaces", "torch.ops"),
    "modules of PyTorch": ("", {"level": "L1", "load": LOAD}, "load.modules[0]", "Cell.<path>"),
    "requests at kernels": ("", {"level": "L2", "statistics": {"request_id": "7"}}, "request_id", "dynamic graphs"),
    "functions beside kernels": ("", {"level": "L2", "custom_apis": {"a": ["b"]}}, "custom_apis", "dynamic graphs"),
    "differences of a static graph": ("O0", DIFFERENCES, "task", "dynamic graphs"),
    "a golden dump of a static graph": ("O0", GOLDEN, "bench_path", "dynamic graphs"),
    "a watched file of kernels": ("", {"level": "L2", "dump_enable": True}, "dump_enable", "dynamic graphs"),
    "a watched file of cells": ("O0", {"level": "L0", "dump_enable": False}, "dump_enable", "dynamic graphs"),
    "xor of cells": ("O0", {"level": "L0", "statistics": {"summary_mode": "xor"}}, "summary_mode", "md5 or statistics"),
    "statistics of a device at L1": ("", {"level": "L1", "statistics": {"device": "device"}}, "device", "level L2"),
    "binary files at mix": (
        "",
        {"level": "mix", "task": "tensor", "tensor": {"file_format": "bin"}},
        "file_format",
        ".npy files",
    ),
    "kernels at L1": (
        "",
        {"level": "L1", "statistics": {"list": ["name-regex(Default/.+)"]}},
        "list[0]",
        "a part of their names",
    ),
    "kernels at L0": ("O0", {"level": "L0", "statistics": {"list": ["name-regex(.+)"]}}, "list[0]", "level L2"),
    "slices of cells": ("O0", {"level": "L0", "statistics": {"slice": [{"end": 2}]}}, "slice", "dynamic graphs"),
}


def attempt(folder: str, mode: str, config: dict[str, Any]) -> list[str]:
    import mindspore as ms

    from msprobe.core.errors import MsprobeException
    from msprobe.mindspore import PrecisionDebugger

    ms.set_context(mode=ms.GRAPH_MODE if mode else ms.PYNATIVE_MODE)
    if mode:
        ms.set_context(jit_level=mode)
    try:
        PrecisionDebugger({"dump_path": folder, **config})
    except MsprobeException as error:
        return [type(error).__name__, str(error)]
    return ["accepted", ""]


def too_late(folder: str) -> list[str]:
    """The mode is set after the debugger was made: told at start, still before training."""
    import mindspore as ms

    from msprobe.core.errors import MsprobeException
    from msprobe.mindspore import PrecisionDebugger

    ms.set_context(mode=ms.PYNATIVE_MODE)
    debugger = PrecisionDebugger({"dump_path": folder, "level": "L1"})
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        debugger.start()
    except MsprobeException as error:
        return [type(error).__name__, str(error)]
    return ["accepted", ""]


def points_of_a_graph(folder: str) -> None:
    """Level debug in a static graph: values outside of it are kept."""
    import mindspore as ms

    from msprobe.mindspore import PrecisionDebugger

    PrecisionDebugger._instance = None
    ms.set_context(mode=ms.GRAPH_MODE)
    debugger = PrecisionDebugger({"dump_path": folder, "level": "debug"})
    debugger.start()
    debugger.save(ms.Tensor([1.0, 3.0]), "outside")
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    folder = sys.argv[1]
    said = {name: attempt(folder, mode, config) for name, (mode, config, _, _) in REFUSED.items()}
    print("SEEN", json.dumps({**said, "late": too_late(folder)}))
    points_of_a_graph(f"{folder}_points")
