"""The kernel is optional: loading it never fails."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from msprobe.native import loader

ROOT = Path(__file__).resolve().parents[2]


def test_the_environment_switches_it_off() -> None:
    script = "from msprobe.native import fused; import sys; print(fused, 'numpy' in sys.modules)"
    environment = {"MSPROBE_NATIVE": "0", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["None", "False"]


@pytest.mark.parametrize(
    ("interface", "accepted"), [(loader.INTERFACE, True), (loader.INTERFACE + 1, False), (None, False)]
)
def test_only_the_matching_interface_is_used(
    monkeypatch: pytest.MonkeyPatch, interface: int | None, accepted: bool
) -> None:
    module = types.ModuleType("msprobe.native._fused")
    if interface is not None:
        module.__dict__["INTERFACE"] = interface
    monkeypatch.delenv("MSPROBE_NATIVE", raising=False)
    monkeypatch.setitem(sys.modules, "msprobe.native._fused", module)
    assert (loader.load() is module) is accepted


def test_absence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MSPROBE_NATIVE", raising=False)
    monkeypatch.setitem(sys.modules, "msprobe.native._fused", None)  # what the import system does for a missing module
    assert loader.load() is None


def test_absence_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MSPROBE_NATIVE", raising=False)
    assert (loader.absence() is None) == (loader.load() is not None)
    monkeypatch.setitem(sys.modules, "msprobe.native._fused", None)
    assert "built without it" in str(loader.absence())
    monkeypatch.setitem(sys.modules, "msprobe.native._fused", types.ModuleType("msprobe.native._fused"))
    assert f"interface None, not {loader.INTERFACE}" in str(loader.absence())
    monkeypatch.setenv("MSPROBE_NATIVE", "0")
    assert "MSPROBE_NATIVE=0" in str(loader.absence())


@pytest.mark.parametrize(("switch", "lines"), [("", 1), ("0", 0)])
def test_absence_is_logged_once_unless_it_is_wanted(
    switch: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MSPROBE_NATIVE", switch)
    monkeypatch.setitem(sys.modules, "msprobe.native._fused", None)
    loader.log_absence()
    loader.log_absence()
    assert capsys.readouterr().out.count("no compiled kernel") == lines
