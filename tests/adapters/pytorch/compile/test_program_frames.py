"""Frames of the program: read from the text of a compiler, and put into the call stack of what runs a node."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

pytest.importorskip("torch")

from msprobe.adapters.pytorch.compile.program_frames import caller_of, frames_of

pytestmark = pytest.mark.torch


def test_frames_are_read_as_dynamo_writes_them() -> None:
    text = '  File "/a b/x.py", line 3, in forward\n    return f(x)\n  File "y.py", line 10, in <lambda>\n'
    assert frames_of(text) == (("/a b/x.py", 3, "forward"), ("y.py", 10, "<lambda>"))
    assert frames_of(None) == ()


def test_a_call_has_the_frames() -> None:
    def seen(first: Any, *, second: Any) -> Any:
        frames = traceback.extract_stack()[-6:-1]
        return first, second, [(frame.filename, frame.lineno, frame.name) for frame in frames]

    frames = (("a.py", 3, "main"), ("b c.py", 10, "forward"))
    first, second, found = caller_of(frames)(seen, (1,), {"second": 2})
    assert (first, second) == (1, 2)
    assert [frame for frame in found if frame in frames] == list(frames)
