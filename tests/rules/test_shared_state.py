"""What another thread may take away at any moment is read once by each function that uses it."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.rules.tree import label, sources

TAKEN_AWAY = {"observer", "late_observer", "target"}
"""Attributes that ``stop`` sets to None; those of ``self`` in an observer or a document are others."""
HOLDERS = ("current", "CALLS")


def reads(function: ast.AST) -> Counter[str]:
    found = [
        ast.unparse(node)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in TAKEN_AWAY
    ]
    return Counter(text for text in found if text.rpartition(".")[0].endswith(HOLDERS) or text == "self.target")


@pytest.mark.parametrize("folder", ["msprobe/core/capture", "msprobe/core/dump", "msprobe/adapters"])
def test_who_reports_looks_once_for_whom_to_report_to(folder: str) -> None:
    twice = {
        f"{label(path)}:{function.lineno}"
        for path in sources(folder)
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and any(count > 1 for count in reads(function).values())
    }
    assert not twice
