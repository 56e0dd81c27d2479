"""Observe the functions of a torch-shaped namespace over MindSpore, under PyTorch's prefixes and by PyTorch's list.

A namespace has a part of PyTorch's functions, and may get more of them later: each start looks for new ones.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from msprobe.adapters.mindspore.taps.api_tap import MindSporeApiTap
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patched_apis import ListedApis
from msprobe.core.capture.patching import find_holder
from msprobe.core.capture.thread_state import ThreadState

SUBMODULES: Mapping[str, str] = {
    "Torch": "",
    "Tensor": "Tensor.",
    "Functional": "nn.functional.",
    "NPU": "",
}
"""Where the functions of a prefix lie below the namespace."""


class MSAdapterApiTap(MindSporeApiTap):
    """Implements ``ApiTap``.

    Args:
        torch: the torch-shaped namespace.
        table: API names by prefix; a dotted name lies in a submodule of the prefix's owner.
        passes_risk: the risk test over API names.
        listed: the APIs that the configuration adds.
    """

    def __init__(
        self,
        torch: ModuleType,
        table: Mapping[str, Sequence[str]],
        passes_risk: Callable[[str], bool],
        current: CurrentObserver,
        thread: ThreadState,
        listed: ListedApis | None = None,
    ) -> None:
        super().__init__([], passes_risk, (current, thread), None, listed)
        self._torch = torch
        self._table = table
        self._planned: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._plan_new()
        with super().attach():
            yield

    def _plan_new(self) -> None:
        for prefix, names in self._table.items():
            root = sys.modules.get("torch_npu") if prefix == "NPU" else self._torch
            for name in names:
                if (prefix, name) not in self._planned and self._plan_one(root, name, prefix):
                    self._planned.add((prefix, name))

    def _plan_one(self, root: Any, name: str, prefix: str) -> bool:
        owner, api = find_holder(root, SUBMODULES[prefix] + name)
        return owner is not None and self._plan(owner, api, prefix) is not None
