"""Collect from a program without lines of msprobe: ``msprobe run`` loads this when torch has been imported."""

from __future__ import annotations

import json

from msprobe.adapters.pytorch.attach.attachment import Attachment, Note, ignore
from msprobe.adapters.pytorch.attach.collection import debugger_steps


def attach(request: str, note: Note = ignore) -> None:
    """Collect from this process.

    Args:
        request: JSON with ``config`` or ``monitor`` (paths) or both, ``model`` (a class name or null), ``first_step``
            (the number of the first step), for a dry run ``measure``: the folder for what the steps cost.
        note: tells the launcher what happened: ``bootstrap/sitecustomize.py:note``.
    """
    options = json.loads(request)
    config = options.get("config")
    if config:
        steps = debugger_steps(config, options.get("measure"), options.get("first_step") or 0)
        Attachment(steps, options.get("model"), note).install()
