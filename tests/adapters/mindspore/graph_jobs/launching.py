"""launching.py FOLDER: is a program launched at once? Says what holds after each debugger, as JSON."""

import json
import sys

import mindspore as ms

from msprobe.mindspore import PrecisionDebugger


def blocking():
    return bool(ms.runtime.executor.RuntimeConf.get_instance().is_launch_blocking())


said = {"import": blocking()}
for mode, config in (
    (ms.PYNATIVE_MODE, {"task": "structure", "level": "mix"}),
    (ms.GRAPH_MODE, {"level": "L0"}),
    (ms.PYNATIVE_MODE, {"level": "L0"}),
):
    ms.set_context(mode=mode)
    PrecisionDebugger._instance = None
    PrecisionDebugger({"dump_path": sys.argv[1], **config})
    said["structure" if "task" in config else "graph" if mode == ms.GRAPH_MODE else "values"] = blocking()
print("SEEN", json.dumps(said))
