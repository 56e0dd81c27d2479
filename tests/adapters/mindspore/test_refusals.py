"""What does not fit is refused with one clear error before training. One process tries the whole table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.adapters.mindspore.graph_jobs.refusals import REFUSED

JOB = Path(__file__).parent / "graph_jobs/refusals.py"
ROOT = Path(__file__).parents[3]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("refusals")


@pytest.fixture(scope="module")
def said(space: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forked.run([JOB, space / "dump"], env=environment, preloaded=forked.MINDSPORE)
    out, output = done.stdout.decode(), (done.stdout + done.stderr).decode()
    assert done.returncode == 0, output
    return {"output": output, **json.loads(out.split("SEEN ", 1)[1].splitlines()[0])}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_one_line_that_names_field_and_way_out(what: str, said: Any, space: Path) -> None:
    kind, message = said[what]
    _, _, field, way_out = REFUSED[what]
    assert kind == "ConfigError"
    assert "\n" not in message and field in message and way_out in message
    assert not list((space / "dump").rglob("*.json"))  # neither a request nor a dump was begun


def test_a_mode_that_is_set_later_is_judged_at_start(said: Any) -> None:
    kind, message = said["late"]
    assert kind == "ConfigError" and "PYNATIVE_MODE" in message


def test_points_of_a_static_graph_are_those_outside_of_it(said: Any, space: Path) -> None:
    assert said["output"].count("save() keeps values outside of compiled code") == 1
    document = next((space / "dump_points").rglob("debug.json"))
    assert json.loads(document.read_text())["data"]["outside.0.debug"]["Mean"] == 2.0


WITHOUT_MINDSPORE = """
import sys
from importlib.machinery import PathFinder

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name == "mindspore" else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


@pytest.mark.parametrize("name", ["PrecisionDebugger", "seed_all"])
def test_a_missing_framework_is_told_when_it_is_needed(name: str) -> None:
    done = run(sys.executable, "-c", f"{WITHOUT_MINDSPORE}from msprobe.mindspore import {name}\n{name}()")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: msprobe.mindspore needs MindSpore 2.4 to 2.10")
