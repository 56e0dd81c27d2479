"""A graph on the CPU that really captures and replays: it keeps the operators, and runs them again on the same memory.

It is as strict as the graph of a device: during a capture the host cannot read a value; after it the memory of results
holds nothing until a replay; and memory that the program has given back does not keep its content, as another graph of
the same pool may use it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

_SYNC = ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::nonzero")
_copy, _detach, _fill, _set = torch.Tensor.copy_, torch.Tensor.detach, torch.Tensor.fill_, torch.Tensor.set_
_empty = torch.empty
"""As they are before a debugger observes them: a device does this work below Python."""
Step = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[torch.Tensor]]


class RecordedGraph:
    """Has the methods of ``torch.cuda.CUDAGraph``."""

    capturing: ClassVar[RecordedGraph | None] = None

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.replays = 0
        self._made: dict[int, tuple[torch.Tensor, int]] = {}
        self._mode = _Recording(self)

    def capture_begin(self, pool: Any = None) -> None:
        self.steps.clear()
        self._made.clear()
        RecordedGraph.capturing = self
        self._mode.__enter__()

    def capture_end(self) -> None:
        self._mode.__exit__(None, None, None)
        RecordedGraph.capturing = None
        for memory, _ in self._made.values():
            _spoil(memory)

    def replay(self) -> None:
        self.replays += 1
        for function, args, kwargs, results in self.steps:
            again = [value for value in tree_leaves(function(*args, **kwargs)) if isinstance(value, torch.Tensor)]
            for new, old in zip(again, results, strict=True):
                if _key(new) != _key(old):
                    _copy(old, new)
        for memory, own in self._made.values():
            if torch._C._storage_Use_Count(memory.untyped_storage()._cdata) <= own:
                _spoil(memory)

    def record(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operator and keep it."""
        if function.name() in _SYNC or any(function.name().startswith(f"{name}.") for name in _SYNC):
            raise RuntimeError(f"{function} waits for a value while a graph is captured")
        given = {_key(value) for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)}
        kept_args, kept_kwargs = tree_map(_alias, (args, kwargs))
        result = function(*args, **kwargs)
        results = [_alias(value) for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        self.steps.append((function, kept_args, kept_kwargs, results))
        for value in results:
            if _key(value) not in given and value.numel() and _key(value) not in self._made:
                whole = _set(_empty(0, dtype=torch.uint8), value.untyped_storage())
                self._made[_key(value)] = whole, 0
        return result

    def close(self) -> None:
        """Count the references to memory that this graph has itself."""
        own: dict[int, int] = {}
        for _, args, kwargs, results in self.steps:
            for value in tree_leaves((args, kwargs, results)):
                if isinstance(value, torch.Tensor):
                    own[_key(value)] = own.get(_key(value), 0) + 1
        self._made = {key: (memory, own.get(key, 0) + 2) for key, (memory, _) in self._made.items()}


class _Recording(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._graph.record(func, args, kwargs or {})


def is_capturing(_: Any = None) -> bool:
    """Return whether this thread captures a graph."""
    return RecordedGraph.capturing is not None and torch._C._len_torch_dispatch_stack() > 0


def modes_of_compiler() -> int:
    """Return how many modes of this thread stay where the tool computes: what it computes belongs to the graph.

    A device records all that is launched. The stand-in is a mode, and the tool computes outside of modes, except those
    of a compiler.
    """
    return int(is_capturing())


@contextlib.contextmanager
def capture(graph: Any) -> Iterator[None]:
    """Capture what runs inside, as ``torch.cuda.graph`` does."""
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()
    graph.close()


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _alias(value: Any) -> Any:
    """Return a tensor of its own on the same memory, so that the program's may end."""
    return _detach(value) if isinstance(value, torch.Tensor) else value


def _spoil(memory: torch.Tensor) -> None:
    _fill(memory, 0x5A)
