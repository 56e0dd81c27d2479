"""The packages that read and run model files, which are an extra: imported where they are needed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from msprobe.core.distribution import install_command
from msprobe.core.errors import MsprobeException


def load_package(name: str) -> Any:
    """Import and return a package of the extra ``onnx``.

    Raises:
        MsprobeException: it is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        fault = "is not installed" if importlib.util.find_spec(name) is None else f"cannot be loaded ({error})"
        raise MsprobeException(0, f"{name} {fault}: {install_command('onnx')}") from error
