"""What runs inside of the user's program catches no general class without a look at where the error comes from.

A handler of a signal may raise any class between any two instructions (``core.interruption``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.tree import label, sources

INSIDE = (
    *("msprobe/adapters", "msprobe/core/capture", "msprobe/core/dump", "msprobe/core/config/watch.py"),
    *("msprobe/online", "msprobe/monitor/session.py", "msprobe/monitor/config_switch.py"),
    "msprobe/saved_values/single_save.py",
)
OUTSIDE = ("/checkpoints/",)  # read by commands
GENERAL = {
    *("BaseException", "Exception", "RuntimeError", "OSError", "TypeError", "ValueError", "AttributeError", "KeyError"),
    *("LookupError", "IndexError", "NotImplementedError", "AssertionError", "ArithmeticError", "OverflowError"),
    *("RecursionError", "MemoryError", "FileNotFoundError", "PermissionError", "TimeoutError"),
}


def inside(path: Path) -> bool:
    place = label(path)
    return place.startswith(INSIDE) and not any(part in place for part in OUTSIDE)


def swallowing(text: str) -> Iterator[int]:
    """Yield the lines of handlers of a general class that neither raise it again nor let through what is not theirs."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        kinds = {"BaseException"} if node.type is None else {each.id for each in names_in(node.type)}
        last, first = node.body[-1], node.body[0]
        raises = isinstance(last, ast.Raise) and last.exc is None
        if kinds & GENERAL and not raises and "let_through" not in ast.unparse(first):
            yield node.lineno


def names_in(kind: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(kind) if isinstance(node, ast.Name))


@pytest.mark.parametrize("path", [pytest.param(path, id=label(path)) for path in sources() if inside(path)])
def test_what_belongs_to_the_program_is_let_through(path: Path) -> None:
    assert not list(swallowing(path.read_text()))


@pytest.mark.parametrize(
    ("handler", "lost"),
    [
        ("except OSError: pass", [2]),
        ("except (KeyError, RuntimeError) as error: note(error)", [2]),
        ("except: pass", [2]),
        ("except ReadError: pass", []),
        ("except OSError as error:\n  let_through(error)\n  pass", []),
        ("except BaseException:\n  undo()\n  raise", []),
    ],
)
def test_a_handler_that_swallows_is_seen(handler: str, lost: list[int]) -> None:
    assert list(swallowing(f"try: work()\n{handler}")) == lost
