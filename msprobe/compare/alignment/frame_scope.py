"""The framework function that a call was made in: ``__getitem__`` for the additions behind ``x[i]``.

Such calls are the framework's own. Another framework, or version, makes others, so they must not be counted together
with those of the model's code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FRAME = re.compile(r"File (?P<file>.*?), line \d+, in (?P<function>[^,\s]+)")
_FRAMEWORK = re.compile(r"(?:^|[/\\])(?:mindspore|torch|torch_npu|msadapter)[/\\]")
_TOOL = re.compile(r"(?:^|[/\\])msprobe[/\\]")
_WRAPPER = "Template"
_MODEL_CALL = frozenset({"construct", "forward", "backward"})
_NOISE = frozenset({
    "__call__",
    "_run_construct",
    "_run_forward_hook",
    "_backward_hook_construct",
    "_call_custom_bprop",
    "_call_impl",
    "_wrapped_call_impl",
    "_call_end",
    "apply",
    "_fn",
    "wrapper",
    "decorate_context",
})


def frame_scope(stack: Sequence[str]) -> str:
    """The outermost framework function between the call and the code of the user; "" when it was made by the user.

    ``stack`` holds the frames of the call as recorded, innermost first.
    """
    stack = [str(frame) for frame in stack]
    start = next((at + 1 for at, frame in enumerate(stack) if _WRAPPER in frame and _TOOL.search(frame)), 0)
    scope = ""
    for frame in stack[start:]:
        found = _FRAME.search(frame)
        if found is None or _TOOL.search(found["file"]):
            continue
        function = found["function"]
        if not _FRAMEWORK.search(found["file"]) or function in _MODEL_CALL:
            return scope
        if function not in _NOISE:
            scope = function
    return ""
