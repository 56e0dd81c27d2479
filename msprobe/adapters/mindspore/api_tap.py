"""The wrapped functions of MindSpore: ops, mint, mint.nn.functional, Tensor, and those a user registers.

Wrappers are made once per session and put in place only between start and stop; outside, and while a jit function
compiles, every attribute is the original.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import mindspore
from mindspore import mint, ops

from msprobe.adapters.mindspore.jit_tap import JitTap
from msprobe.adapters.mindspore.primitive_tap import PrimitiveTap
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import wrap

OWNERS: Mapping[str, Any] = {
    "Functional": ops,
    "Mint": mint,
    "MintFunctional": mint.nn.functional,
    "Tensor": mindspore.Tensor,
}


class MindSporeApiTap:
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix.
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
        cells: gives the cells whose primitives are recorded too.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Sequence[str]]],
        recorded: Callable[[str], bool],
        relay: Relay,
        thread: ThreadState,
        cells: Callable[[], Iterable[Any]],
    ) -> None:
        self._relay = relay
        self._thread = thread
        self._recorded = recorded
        self._patches = Patches()
        self._sites: dict[tuple[str, str], CallSite] = {}
        self._custom: dict[tuple[int, str], tuple[Any, str, str, Any]] = {}
        self._primitives = PrimitiveTap(cells, self.site, self._patches, relay, thread)
        self._jit = JitTap(self._patches, self.site, relay, thread)
        for table in tables:
            for prefix, names in table.items():
                for name in names:
                    self._plan(OWNERS[prefix], name, prefix)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._primitives.find()
        with self._patches.in_force(), self._jit.attach():
            yield

    def reset(self) -> None:
        for site in self._sites.values():
            site.reset()

    def add(self, owner: Any, name: str, prefix: str) -> None:
        """Wrap a function of the user; registering it again under another prefix replaces the first registration."""
        self.remove(owner, name)
        self._custom[(id(owner), name)] = (owner, name, prefix, self._plan(owner, name, prefix))

    def remove(self, owner: Any, name: str) -> None:
        known = self._custom.pop((id(owner), name), None)
        if known is not None and known[3] is not None:
            self._patches.drop(owner, name, known[3])

    def registered(self) -> Sequence[tuple[Any, str, str]]:
        return [(owner, name, prefix) for owner, name, prefix, _ in self._custom.values()]

    def site(self, prefix: str, name: str) -> CallSite:
        """The counter of one API; all its wrappers share it."""
        site = self._sites.setdefault((prefix, name), CallSite(prefix, name))
        site.recorded = site.recorded and self._recorded(name)
        return site

    def _plan(self, owner: Any, name: str, prefix: str) -> Any:
        original = getattr(owner, name, None)
        if not callable(original):
            return None
        wrapper = wrap(original, self.site(prefix, name), self._relay, self._thread)
        self._patches.plan(owner, name, wrapper)
        return wrapper
