"""``AclGraphDumper``: the interface of graph-mode serving. It has no ``stop``; callers recognise it by that.

    dumper = AclGraphDumper("config.json")
    dumper.start(model)         # once, before the graphs are captured
    dumper.step()               # after each iteration; step(dump=False) drops a dummy one

With ``dump_enable`` the configuration file switches it on and off at the next iteration.

Reading values out of a captured ACL graph needs the NPU runtime. Elsewhere the model runs eagerly and is observed at
its modules, and the dump says so: ``"kernel_source": "cpu-fallback"`` in its header.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.core.dump import handle
from msprobe.core.log import logger


class AclGraphDumper:
    """Collects module statistics of every iteration.

    Args:
        config_path: as for ``PrecisionDebugger``. The level is always L0, because a graph has no API calls.

    Raises:
        ConfigError: something in the configuration is wrong.
    """

    def __init__(self, config_path: Any) -> None:
        self._debugger = PrecisionDebugger(config_path, level="L0")
        handle.current().label = {"kernel_source": "cpu-fallback"}
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
