"""APIs that the configuration adds to the wrapped ones, and all operators of ``custom_op_namespaces``.

    {"custom_op_namespaces": ["my_ops"]}                                torch.ops.my_ops.twice -> my_ops.twice.0.forward

An operator that does not exist yet is looked for again at a later start.
"""

from __future__ import annotations

import torch

from msprobe.core.backend.support import DEFAULT_NAMESPACES
from msprobe.core.capture.listed_apis import Adding, ListedApis
from msprobe.core.config import DumpConfig
from msprobe.core.log import first_time, logger


class TorchListedApis(ListedApis):
    """Registers the listed APIs, and the operators of the listed namespaces."""

    def __init__(self, config: DumpConfig) -> None:
        super().__init__(config)
        self._namespaces = config.custom_op_namespaces

    def _register_new(self, tap: Adding) -> None:
        super()._register_new(tap)
        for namespace in self._namespaces:
            self._add_operators(tap, namespace)

    def _add_operators(self, tap: Adding, namespace: str) -> None:
        head = f"{namespace}::"
        operators = torch._C._dispatch_get_all_op_names()
        names = {name[len(head) :].partition(".")[0] for name in operators if name.startswith(head)}
        if not names and namespace not in DEFAULT_NAMESPACES and first_time(("custom_op_namespaces", namespace)):
            logger.warning(
                "custom_op_namespaces: torch.ops.%s has no operators (yet); nothing of it is recorded", namespace
            )
        added = sorted(name for name in names if (head, name) not in self._registered)
        for name in added:
            owner = getattr(torch.ops, namespace)
            packet = getattr(owner, name, None)
            if packet is not None:
                for overload in packet.overloads():  # once asked for, they are attributes, which a wrapper takes over
                    getattr(packet, overload)
                tap.add_listed(owner, name, namespace)
            self._registered.add((head, name))
        if added:
            logger.info("%d operators of torch.ops.%s are recorded too", len(added), namespace)
