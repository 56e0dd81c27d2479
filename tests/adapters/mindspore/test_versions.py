"""Which MindSpore we work with, and what a user sees without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from msprobe.adapters.mindspore.versions import parsed, survive_first_conversion, version_fault

ABSENT = """
import importlib.util, sys
whole = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "mindspore" else whole(name, package)
try:
    from msprobe.mindspore import PrecisionDebugger
except ImportError as error:
    assert "2.4 to 2.10" in str(error) and "pip install" in str(error), error
else:
    raise SystemExit("no error")
"""
CHEAP = "import msprobe.mindspore, sys; assert not {'mindspore', 'numpy', 'torch'} & set(sys.modules)"


@pytest.mark.parametrize(("version", "good"), [("2.3.1", False), ("1.10.1", False), ("2.4.0", True), ("2.10.0", True)])
def test_versions_before_the_oldest_are_refused(version: str, good: bool) -> None:
    fault = version_fault(version)
    assert (fault is None) == good
    assert good or (fault is not None and version in fault and "2.4 to 2.10" in fault)


def test_versions_are_numbers_not_text() -> None:
    assert parsed("2.10.0rc1") > parsed("2.9.1")


def test_under_numpy_1_nothing_is_thrown_away() -> None:
    assert survive_first_conversion("1.26.4") is False


@pytest.mark.parametrize("program", [ABSENT, CHEAP], ids=["absent", "cheap"])
def test_in_a_process_of_its_own(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
