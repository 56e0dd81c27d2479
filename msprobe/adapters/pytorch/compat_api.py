"""Entry points that programs written for other versions of the tool import.

``module_dump`` records the inputs and outputs of one module, and nothing inside it.

``AclGraphDumper`` is the interface of graph-mode serving. It has no ``stop``, and callers recognize it by that:

    dumper = AclGraphDumper("config.json")
    dumper.start(model)         # once, before the graphs are captured
    dumper.step()               # after each iteration; step(dump=False) drops a dummy one

With ``dump_enable`` the configuration file switches it on and off at the next iteration. Reading values out of a
captured ACL graph needs the NPU runtime. Elsewhere the model runs eagerly and is observed at its modules, and the dump
says so: ``"kernel_source": "cpu-fallback"`` in its header.

``exist_in_precision_standard`` and the names around it are imported by the inductor back end for NPU, which asks which
kernels have a precision standard. No kernel has one here, so the caller judges each kernel by its own tolerance, as it
does without this package.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.core.dump.record.error_boundary import log_unexpected
from msprobe.core.dump.session import process_debugger
from msprobe.core.dump.session.kernel_level import FALLBACK
from msprobe.core.log import logger


@log_unexpected
def module_dump(module: Any, dump_name: str) -> None:
    """Record ``module`` alone, as ``Module.{dump_name}.{Class}``, until ``module_dump_end``.

    Raises:
        MsprobeException: there is no debugger, or an argument is of the wrong type.
    """
    with process_debugger.LOCK:
        process_debugger.current().focus(module, dump_name)


@log_unexpected
def module_dump_end() -> None:
    """End ``module_dump``: record as configured again."""
    with process_debugger.LOCK:
        process_debugger.current().focus_end()


class AclGraphDumper:
    """Collects module statistics of every iteration.

    Args:
        config_path: as for ``PrecisionDebugger``. The level is always L0, because a graph has no API calls.

    Raises:
        ConfigError: something in the configuration is wrong.
    """

    def __init__(self, config_path: Any) -> None:
        self._debugger = PrecisionDebugger._construct(config_path, {"level": "L0"}, label={"kernel_source": FALLBACK})
        logger.warning(
            "no ACL graph runtime here: AclGraphDumper observes the modules of the eager model (cpu-fallback)"
        )

    def start(self, model: Any = None, **unknown: Any) -> None:
        """Begin collecting; called once for all iterations."""
        self._debugger.start(model=model, **unknown)

    def step(self, dump: bool = True, **unknown: Any) -> None:
        """End an iteration; with ``dump=False`` drop what it recorded."""
        self._debugger.step(dump=dump, **unknown)

    def _maybe_reload_config(self, force: bool = False) -> bool:
        return self._debugger._maybe_reload_config(force)


BENCHMARK_COMPARE_SUPPORT_LIST = ["torch.float16", "torch.bfloat16", "torch.float32"]


class CompareConst:
    """The verdict words."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


def exist_in_precision_standard(kernel_name: str) -> bool:
    """Return whether ``kernel_name`` has a precision standard: always False."""
    return False
