"""Frames of call stacks as they are recorded: ``File PATH, line N, in FUNCTION, CODE``, and whose code they are."""

from __future__ import annotations

import re

FRAMEWORK = (
    r"^<|(?:site|dist)-packages/(?:torch|torch_npu|mindspore|msadapter|mindtorch)/"
    r"|/torch/(?:nn|optim|autograd|utils|distributed)/|/torch/_|/lib/python\d[\d.]*/(?!(?:site|dist)-packages/)"
)
"""Paths of a framework, of Python itself and of generated code; the viewer has the same expression (``stacks.js``)."""
LIBRARY = r"(?:site|dist)-packages/|/lib/python\d"
"""Paths of installed packages."""
FRAME = re.compile(r"\s*File \"?(.+?)\"?, line (\d+)(?:, in ([^,\n]+))?,?\s*(.*)\Z", re.DOTALL)
"""A recorded frame: path, number of the line, function and code."""


def frame_text(path: str, line: int, function: str, code: str) -> str:
    """Return the text of a frame."""
    return f"File {path}, line {line}, in {function}, \n {code}"


def is_installed(path: str) -> bool:
    """Return whether a file belongs to a framework, to Python or to another installed package."""
    return bool(re.search(FRAMEWORK, path) or re.search(LIBRARY, path))
