"""The NPU runtime behind level L2: ``torch_npu.npu``."""

from __future__ import annotations

from typing import Any

from msprobe.core.backend.kernel_runtimes import NpuRuntime
from msprobe.core.interruption import import_whole, let_through
from msprobe.core.log import logger


class TorchNpuRuntime:
    """Implements ``NpuRuntime`` with the functions of the module ``torch_npu.npu``."""

    def __init__(self, npu: Any) -> None:
        self._npu = npu

    def synchronize(self) -> None:
        self._npu.synchronize()

    def init_dump(self) -> None:
        self._npu.init_dump()

    def set_dump(self, path: str) -> None:
        self._npu.set_dump(path)

    def finalize_dump(self) -> None:
        self._npu.finalize_dump()


def find_npu_runtime() -> NpuRuntime | None:
    """Return the runtime of this machine's NPU, or None; log a warning where torch_npu cannot be used.

    Level L2 needs torch_npu, and no other place imports it.
    """
    try:
        npu = import_whole("torch_npu").npu
        available = bool(npu.is_available())
    except ModuleNotFoundError:
        return None
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        let_through(error)
        logger.warning("level L2: torch_npu cannot be used: %s", error)
        return None
    return TorchNpuRuntime(npu) if available else None
