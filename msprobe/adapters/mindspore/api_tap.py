"""Observe the functions of MindSpore: ops, mint, mint.nn.functional, Tensor, and those that a user registers.

While a jit function is compiled, every replaced attribute is the original again.
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
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrapped_apis import Listed, WrappedApis

OWNERS: Mapping[str, Any] = {
    "Functional": ops,
    "Mint": mint,
    "MintFunctional": mint.nn.functional,
    "Tensor": mindspore.Tensor,
}


class MindSporeApiTap(WrappedApis):
    """Implements ``ApiTap``.

    Args:
        tables: API names by prefix.
        recorded: the risk test over API names; an API that fails it is counted but not recorded.
        relay: holds the observer of the present step.
        thread: the state of the present thread.
        cells: returns the cells whose primitives are recorded by name, beside all other primitives; None when
            primitives are below the functions that are recorded.
        listed: the APIs that the configuration adds.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Sequence[str]]],
        recorded: Callable[[str], bool],
        relay: Relay,
        thread: ThreadState,
        cells: Callable[[], Iterable[Any]] | None,
        listed: Listed | None = None,
    ) -> None:
        super().__init__(recorded, relay, thread, listed)
        self._primitives = None if cells is None else PrimitiveTap(cells, self.site, relay, thread)
        self._jit = JitTap(self._patches, self.site, relay, thread)
        for table in tables:
            self._plan_table(table, OWNERS)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        primitives = contextlib.nullcontext() if self._primitives is None else self._primitives.attach()
        with super().attach(), primitives, self._jit.attach():
            yield
