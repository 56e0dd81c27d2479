"""Configurations, right and wrong, on which ``msprobe validate`` and the debugger must agree.

``python -m tests.cli.agreement FRAMEWORK FOLDER EXAMPLES`` tries them on MindSpore or MSAdapter in a process of its
own.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.cli.main import run
from msprobe.core.config import TASKS
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from tests.fresh_debugger import forget

MODULE, CELL, API = "Module.fc.Linear.forward.0", "Cell.fc.Dense.forward.0", "Functional.linear.0.forward"
_RANGES = [[], [0], ["0-3"], [3, "5-9"], ["5-3"], [-1], "0", [True], [1000001], None]
_NAMES = [[], ["linear"], [API], [MODULE], [CELL], [""], ["name-regex(Default/.+)"], ["name-regex(()"], "linear", [3]]


def configurations(folder: Path) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the content of a config.json; ``prepare`` has made the paths in it."""
    absent = str(folder / "absent")
    sections: dict[str, list[Any]] = {
        "scope": [[], [API, API], [MODULE, MODULE], [CELL, CELL], [API], ["linear", API], "x"],
        "list": _NAMES,
        "tensor_list": _NAMES[:4],
        "data_mode": [["all"], ["forward"], ["input"], ["backward", "output"], ["all", "input"], ["none"]],
        "summary_mode": ["statistics", "md5", "xor", ["max", "l2norm"], ["count"], ["hash"], [], "crc"],
        "slice": [[], [{"dim": 0, "end": 2}], [{"dim": -1}], {}],
        "request_id": ["7", 7],
        "bench_path": [str(folder / "golden"), absent, 3],
        "diff_nums": [1, -1, 0, "x"],
        "overflow_nums": [3, 0],
        "check_mode": ["all", "aicore", "none"],
        "file_format": ["npy", "bin", "pt"],
        "device": ["host", "device"],
        "projection": [True, "yes"],
        "error_data_path": [str(folder), absent],
        "unknown": [1],
    }
    loads = [
        {"path": str(folder / "golden"), "modules": [MODULE]},
        {"path": str(folder / "golden"), "modules": [CELL], "dump_after_load": True},
        {"path": absent, "modules": [MODULE]},
        {"path": str(folder / "golden"), "modules": []},
    ]
    common: dict[str, list[Any]] = {
        "level": ["L0", "L1", "mix", "L2", "debug", "l0", "", None],
        "rank": _RANGES,
        "step": _RANGES,
        "async_dump": [True, False, "true"],
        "dump_enable": [True, False, None, 1],
        "extra_info": [False, 0],
        "precision": ["high", "low", "mid"],
        "risk_level": ["CORE", "ALL", "", "LOW"],
        "custom_op_namespaces": [["mine"], ["_C_ascend"], "mine"],
        "custom_apis": [{"math": ["hypot"]}, {"a b": ["c"]}, *(str(folder / name) for name in _API_FILES), absent, 3],
        "load": loads,
        "enable_dataloader": [True],
        "stepp": [[1]],
    }
    paths = st.sampled_from([str(folder / "dump")] * 6 + ["", "a\nb", 3])
    section = _some_of(sections, 3)
    return st.builds(
        lambda path, task, own, fields: {"dump_path": path, "task": task, task: own, **fields},
        paths,
        st.sampled_from([*TASKS, *TASKS, "statistics", "tensor", "grad_probe", "stat"]),
        section,
        _some_of(common, 3),
    )


def _some_of(choices: dict[str, list[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    keys = st.lists(st.sampled_from(sorted(choices)), max_size=most, unique=True)
    return keys.flatmap(lambda chosen: st.fixed_dictionaries({key: st.sampled_from(choices[key]) for key in chosen}))


_API_FILES = {"apis.yaml": "math: [hypot]", "scalar.yaml": "math: hypot", "names.yaml": "a b: [c]", "apis.txt": ""}


def prepare(folder: Path) -> None:
    """Make the paths that configurations name."""
    (folder / "golden").mkdir(exist_ok=True)
    for name, text in _API_FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def validated(file: Path, framework: str, mode: str = "") -> bool:
    """Return whether ``msprobe validate`` accepts a file for a framework, in its mode ``mode`` where it has several."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = run(["validate", str(file), "-f", framework])
    text = said.getvalue()
    assert status in (0, 2), text
    assert ("can be used (" in text) is (status == 0), text
    return status == 0 and not (mode and f"not on {mode}: " in text)


def constructed(file: Path, facade: str) -> bool:
    """Return whether the real debugger accepts a file."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(facade).PrecisionDebugger(str(file))
    except MsprobeException:
        return False
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            forget(facade)
    return True


def check(raw: dict[str, Any], folder: Path, facade: str, framework: str, mode: str = "") -> bool:
    """Assert that both judge ``raw`` alike; return whether they accept it."""
    file = folder / "config.json"
    file.write_text(json.dumps(raw), encoding="utf-8")
    accepted = validated(file, framework, mode)
    assert constructed(file, facade) is accepted, f"validate says {accepted}"
    return accepted


def search(folder: Path, judge: Callable[[dict[str, Any]], bool], examples: int, *, at_random: bool = False) -> int:
    """Try so many configurations, other ones each time if ``at_random``; return how many were accepted."""
    prepare(folder)
    logger.setLevel(logging.CRITICAL)
    path = {"dump_path": str(folder / "dump")}
    plain = [{**path, "level": "L0"}, {**path, "level": "L1"}, {**path, "task": "structure"}, {**path, "level": "L2"}]
    plain += [{**path, "task": "exception_dump", "exception_dump": {"data_mode": ["forward"]}}]
    accepted = [judge(raw) for raw in plain]

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=not at_random,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(raw=configurations(folder))
    def agree(raw: dict[str, Any]) -> None:
        accepted.append(judge(raw))

    agree()
    return sum(accepted)


def main(framework: str, folder: Path, examples: int, *, at_random: bool) -> None:
    """Try configurations on the debugger of MindSpore in each of its modes, or on that of MSAdapter."""
    if framework == "msadapter":
        from tests.msadapter_stand_in import install

        install()
        count = search(
            folder, lambda raw: check(raw, folder, "msprobe.mindspore", framework), examples, at_random=at_random
        )
        print(f"accepted {count}")
        return
    import mindspore

    for mode, level in (("dynamic", ""), ("static O0/O1", "O0"), ("static O2", "O2")):
        mindspore.set_context(mode=mindspore.GRAPH_MODE if level else mindspore.PYNATIVE_MODE)
        if level:
            mindspore.set_context(jit_level=level)
        name = f"{framework} {mode}"
        count = search(
            folder,
            lambda raw, name=name: check(raw, folder, "msprobe.mindspore", framework, name),
            examples,
            at_random=at_random,
        )
        print(f"accepted {count} ({mode})")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), at_random=sys.argv[4:] == ["random"])
