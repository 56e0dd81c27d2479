"""``AclGraphDumper``: the interface of serving in graph mode. It has no ``stop``, and callers recognize it by that:

    dumper = AclGraphDumper("config.json")
    dumper.start(model)         # once, before the graphs are captured
    dumper.step()               # after each iteration; step(dump=False) drops a dummy one

Calls inside a captured graph (CUDA graphs, ACL graphs) are recorded at each replay, with the names that they have in an
eager run; what runs eagerly between graphs is recorded beside them, and so are modules inside compiled code. The header
of each dump says what it holds: ``kernel_source``. ACL graphs were not run on an NPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msprobe.adapters.pytorch.backend import make_backend
from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.adapters.pytorch.kernel.graph_events import graph_tap
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session.graph_session import GraphSession, check_graph_mode


class AclGraphDumper:
    """Collects what a model computes in every iteration, inside captured graphs and outside of them.

    Args:
        config_path: as for ``PrecisionDebugger``, with task ``statistics``, ``tensor`` or ``structure`` and level
            ``L0``, ``L1`` or ``mix``.

    Raises:
        ConfigError: something in the configuration is wrong, or cannot be had in graph mode.
    """

    def __init__(self, config_path: Any) -> None:
        self._debugger = PrecisionDebugger._construct(config_path, {}, make_session=_make_session)

    def start(self, model: Any = None, **unknown: Any) -> None:
        """Begin collecting; called once for all iterations, before graphs are captured."""
        self._debugger.start(model=model, **unknown)

    def step(self, dump: bool = True, **unknown: Any) -> None:
        """End an iteration; with ``dump=False`` drop what it recorded."""
        self._debugger.step(dump=dump, **unknown)

    def _maybe_reload_config(self, force: bool = False) -> bool:
        return self._debugger._maybe_reload_config(force)


def _make_session(config: DumpConfig, watch: ConfigWatch | None) -> GraphSession:
    check_graph_mode(config)
    return GraphSession(config, partial(make_backend, compiled_functions=True), watch, graph_tap())
