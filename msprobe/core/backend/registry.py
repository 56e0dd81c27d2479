"""Backends by name: a built-in table of import paths, so that core names adapters but never imports them."""

from __future__ import annotations

import importlib
from typing import Any

from msprobe.core.errors import MsprobeException

_BUILT_IN = {
    "pytorch": "msprobe.adapters.pytorch.backend",
    "mindspore": "msprobe.adapters.mindspore.backend",
    "msadapter": "msprobe.adapters.msadapter.backend",
}


def find_backend(name: str) -> Any:
    """The ``make`` function of a backend.

    Raises:
        MsprobeException: the name is unknown, or the framework behind it is not installed.
    """
    path = _BUILT_IN.get(name)
    if path is None:
        raise MsprobeException(0, f"no backend {name!r}; there is {', '.join(sorted(_BUILT_IN))}")
    try:
        return importlib.import_module(path).make
    except ImportError as error:
        raise MsprobeException(
            0, f"backend {name} needs a package that is not installed ({error.name}): pip install msprobe[{name}]"
        ) from error
