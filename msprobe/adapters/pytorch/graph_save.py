"""``acl_save``: a tensor as a ``.pt`` file, from eager code, compiled code, or an ACL graph that is replayed.

    from msprobe.pytorch import acl_save

    acl_save(scores, "debug/scores.pt")         # debug/scores.pt, then debug/scores_1.pt, debug/scores_2.pt

In eager mode the file is written at once. Under ``torch.compile`` the call becomes an operator with an ordered effect,
without a graph break, and each run of the graph writes a file. While a graph of a device is captured (CUDA graphs, ACL
graphs) nothing has a value yet: a copy becomes part of the graph, and each replay writes a file of it, for which the
host waits. What cannot be saved is a warning, never an error of the program. ACL graphs were not run on an NPU.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from msprobe.adapters.pytorch.kernel.graph_events import graph_tap
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.tensors.memory import with_memory
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.tensors.unwritten import is_capturing
from msprobe.core.backend.captured_graphs import GraphTap
from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import argument_text, error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.safe_files import make_folder

_SUFFIX = ".pt"
_TAGS = ("cudagraph_unsafe", "flexible_layout")  # inductor must not put it into a CUDA graph, which would not run it
_is_compiling: Callable[[], bool] = torch.compiler.is_compiling


def acl_save(x: Any, path: Any) -> Any:
    """Write the tensor ``x`` to ``path`` and return ``x``.

    Args:
        x: a tensor of any device and dtype.
        path: the file of the first call; those of further calls, and of further runs of a graph, are numbered. It gets
            ``.pt`` where it has no such ending, and ``_rank{r}`` in a job of several ranks. Missing folders are made.
    """
    if _is_compiling() and isinstance(x, torch.Tensor) and isinstance(path, str):
        torch.ops.msprobe.acl_save(x.detach(), path)
    else:
        _SAVER.save(x, path)
    return x


class GraphSaver:
    """Writes the files of ``acl_save`` and counts them by path; listens to graphs (implements ``GraphListener``).

    Args:
        tap: returns what tells of captures and replays; asked for when a first capture calls ``acl_save``.
        capturing: returns whether the device of a tensor captures a graph now.
    """

    def __init__(self, tap: Callable[[], GraphTap], capturing: Callable[[torch.Tensor], bool]) -> None:
        self._tap = tap
        self._capturing = capturing
        self._listening = contextlib.ExitStack()
        self._is_listening = False
        self._lock = threading.Lock()
        self._numbers: dict[str, Iterator[int]] = {}
        self._values = TorchTensorOps()
        self._new: list[tuple[torch.Tensor, str]] = []  # of the capture that is going on
        self._graphs: weakref.WeakKeyDictionary[Any, list[tuple[torch.Tensor, str]]] = weakref.WeakKeyDictionary()

    def save(self, x: Any, path: Any) -> None:
        """Write ``x`` now, or at each replay of the graph that is being captured; a fault is a warning."""
        if not isinstance(x, torch.Tensor):
            _warn(path, f"x is a tensor, got {argument_text(x)}")
        elif not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            _warn(path, "path is the name of a file")
        else:
            with _warned(path), outside_modes(), _unrecorded(), torch.no_grad():
                self._save(x, os.fspath(path))

    def _save(self, x: torch.Tensor, path: str) -> None:
        plain = with_memory(x)
        if plain is None:
            _warn(path, "the tensor has no values (meta, fake, or still being received)")
        elif self._capturing(plain):
            if not self._is_listening:
                self._is_listening = True
                self._listening.enter_context(self._tap().attach(self))
            self._new.append((plain.clone(), path))
        else:
            self._write(plain.cpu(), path)

    def before_capture(self) -> None:
        """Do nothing: nothing is waited for in the background."""

    def begin(self, graph: Any) -> None:
        """Do nothing: what is saved is told by ``save``."""

    def end(self) -> None:
        """Do nothing: the copies are part of the graph."""

    def captured(self, graph: Any, complete: bool) -> None:
        """Save what the graph holds at each of its replays from now on."""
        new, self._new = self._new, []
        self._graphs.pop(graph, None)
        if complete and new:
            self._graphs[graph] = new

    def replayed(self, graph: Any) -> None:
        """Write what a replay has copied."""
        for copy, path in self._graphs.get(graph, ()):
            with _warned(path), outside_modes(), _unrecorded(), torch.no_grad():
                self._write(copy.cpu(), path)

    def _write(self, plain: torch.Tensor, path: str) -> None:
        with self._lock:
            stem = os.path.abspath(path).removesuffix(_SUFFIX) + _rank_part(path)
            number = next(self._numbers.setdefault(stem, itertools.count()))
            file = Path(f"{stem}_{number}{_SUFFIX}" if number else f"{stem}{_SUFFIX}")
            make_folder(file.parent)
            if not self._values.save(plain, file):
                _warn(path, f"torch cannot save a tensor of {plain.dtype}")


@contextlib.contextmanager
def _warned(path: Any) -> Iterator[None]:
    """Warn of what keeps a tensor from being saved; the program goes on."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        let_through(error)
        _warn(path, error_text(error))


def _rank_part(path: str) -> str:
    """Return what keeps the ranks of a job from writing one file; "" where the path tells them apart."""
    rank = TorchRuntime().rank()
    alone = rank is None or torch.distributed.get_world_size() == 1
    return "" if alone or f"rank{rank}" in path else f"_rank{rank}"


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    """Record nothing that this thread calls inside, where a session collects."""
    thread = getattr(process_debugger.peek(), "thread", None)
    with contextlib.nullcontext() if thread is None else thread.quiet():
        yield


def _warn(path: Any, fault: str) -> None:
    """Log why a tensor was not saved, once for each path and reason."""
    if first_time(("acl_save", str(path), fault)):
        logger.warning("acl_save: %s: %s; nothing is saved, the program goes on", argument_text(path), fault)


def _operator(x: torch.Tensor, path: str) -> None:
    _SAVER.save(x, path)


def _define_operator() -> torch.library.Library:
    """Define the operator of compiled code and return its library; it exists as long as that does."""
    library = torch.library.Library("msprobe", "FRAGMENT")
    tags = [getattr(torch.Tag, name) for name in _TAGS if hasattr(torch.Tag, name)]
    library.define("acl_save(Tensor x, str path) -> ()", tags=tuple(tags))
    library.impl("acl_save", _operator, "CompositeExplicitAutograd")
    torch.library.register_fake("msprobe::acl_save", lambda x, path: None, lib=library)
    torch.fx.node.has_side_effect(torch.ops.msprobe.acl_save.default)
    if hasattr(library, "_register_effectful_op"):
        library._register_effectful_op("msprobe::acl_save", torch.library.EffectType.ORDERED)
    return library


_SAVER = GraphSaver(graph_tap, is_capturing)
_LIBRARY = _define_operator()
