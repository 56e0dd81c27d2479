"""``msprobe install_deps`` says what is missing, and installs nothing."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from msprobe.cli.main import run
from msprobe.core.distribution import NAME


def test_all_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install_deps", "--mode", "offline", "--no_check"]) == 0
    assert capsys.readouterr().out == "onnx: installed (offline_dump and compare -m offline_model: model files)\n"


def test_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.find_spec

    def without_onnxruntime(name: str, *rest: Any) -> Any:
        return None if name == "onnxruntime" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without_onnxruntime)
    assert run(["install_deps"]) == 1
    text = capsys.readouterr().out
    assert "onnx: missing: onnxruntime (offline_dump" in text
    assert f'To install: pip install "{NAME}[' in text
