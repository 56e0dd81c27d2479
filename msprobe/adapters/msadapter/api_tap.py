"""The functions of a torch-shaped namespace over MindSpore, under PyTorch's prefixes and by PyTorch's list.

A namespace offers a part of what PyTorch has, and may bring more of it later: each start plans what has become
available.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from msprobe.adapters.mindspore.api_tap import MindSporeApiTap
from msprobe.core.capture.dotted import find_holder
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrapped_apis import Listed

_PLACES: Mapping[str, str] = {
    "Torch": "",
    "Tensor": "Tensor.",
    "Functional": "nn.functional.",
    "NPU": "",
}


class MSAdapterApiTap(MindSporeApiTap):
    """Implements ``ApiTap``.

    Args:
        torch: the torch-shaped namespace.
        table: API names by prefix; a dotted name lies in a submodule of the prefix's owner.
        recorded: the risk test over API names.
        listed: the APIs that the configuration adds.
    """

    def __init__(
        self,
        torch: ModuleType,
        table: Mapping[str, Sequence[str]],
        recorded: Callable[[str], bool],
        relay: Relay,
        thread: ThreadState,
        listed: Listed | None = None,
    ) -> None:
        super().__init__([], recorded, relay, thread, None, listed)
        self._torch = torch
        self._table = table
        self._done: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._look()
        with super().attach():
            yield

    def _look(self) -> None:
        for prefix, names in self._table.items():
            root = sys.modules.get("torch_npu") if prefix == "NPU" else self._torch
            for name in names:
                if (prefix, name) not in self._done and self._find(root, name, prefix):
                    self._done.add((prefix, name))

    def _find(self, root: Any, name: str, prefix: str) -> bool:
        owner, api = find_holder(root, _PLACES[prefix] + name)
        return owner is not None and self._plan(owner, api, prefix) is not None
