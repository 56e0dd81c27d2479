"""The folder with megatron-core, which the project's environment does not have."""

from __future__ import annotations

import os
from pathlib import Path

from tests.separate_packages import installed

VERSION = "0.16.1"


def megatron_folder() -> Path:
    """Return the folder for the front of PYTHONPATH; it is filled on first use.

    Raises:
        CannotInstallError: no package index is reachable.
    """
    return installed(f"megatron-core-{VERSION}", f"megatron-core=={VERSION}")


def environment() -> dict[str, str]:
    """Return what a process needs to import megatron-core."""
    path = os.pathsep.join([str(megatron_folder()), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "CUDA_DEVICE_MAX_CONNECTIONS": "1", "MSPROBE_LOG_LEVEL": "4"}
