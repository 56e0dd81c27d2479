"""``random_save``: where a program draws random numbers, as a table of calls and their stacks.

    random_save("./output")      ./output/random_{rank{R} | proc{pid}}_{time}.csv with the columns api_name, stack

An ``api_name`` is ``{library}.{function}.{count}``, for example ``torch_random.randn.0``. Each row is on disk when the
call returns. A table that can no longer be written ends with one line in the log, and the program goes on.

``random_sources`` finds every function that draws random numbers: PyTorch marks its operators with the tag
``nondeterministic_seeded``; Python's ``random`` and ``numpy.random`` expose the methods of one shared generator as
functions. ``random_patches`` puts a wrapper around each of them:

    library            the functions
    torch_random       torch.randn, torch.bernoulli, torch.dropout, ...       (and torch._VF, what torch.nn uses)
    tensor_random      torch.Tensor.uniform_, normal_, ...
    functional_random  torch.nn.functional.dropout, scaled_dot_product_attention, ...
    python_random      random.random, random.choice, ...
    numpy_random       numpy.random.rand, ...

Generator objects of numpy (``default_rng()``) have a state of their own and cannot be reached.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.compile.recompilation import skip_in_dynamo
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.taps.api_tap import list_device_constructors, show_originals
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.random_sources import RandomSource, host_sources
from msprobe.core.errors import FileCheckException, MsprobeException, argument_text, error_text
from msprobe.core.host import require_local
from msprobe.core.interruption import ignored, let_through
from msprobe.core.log import logger
from msprobe.core.store.safe_files import disk_remedy, make_folder, open_private

_TAGGED_NAMESPACE = "aten"

_DRAW_SOMETIMES = {"gru", "lstm", "rnn_relu", "rnn_tanh", "scaled_dot_product_attention"}
_BYTE_ORDER_MARK = "\ufeff"
_active_table: RandomCalls | None = None


def random_save(output_path: str = "./output") -> None:
    """Write every random call from now on into a table below ``output_path``; later calls in the process do nothing.

    Raises:
        MsprobeException: the path is no str, or a URL.
        FileCheckException: code 3, the table cannot be created there.
    """
    global _active_table
    folder: object = output_path
    if not isinstance(folder, str) or not folder:
        raise MsprobeException(0, f"random_save: output_path is a non-empty str, got {argument_text(folder)}")
    require_local(folder, "random_save: output_path")
    if _active_table is not None:
        logger.warning("random_save is on already and writes to %s", _active_table.path)
        return
    try:
        _active_table = RandomCalls(Path(output_path).absolute())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        let_through(error)
        where = f"random_save: output_path {argument_text(output_path)}"
        raise FileCheckException(
            3, f"{where} cannot be written ({error_text(error)}); give a folder that can be"
        ) from error
    random_patches(_active_table.around).apply()
    logger.info("calls of random functions go to %s", _active_table.path)


class RandomCalls:
    """The table of one process."""

    def __init__(self, folder: Path) -> None:
        self._stacks = StackTable()
        self._counters: dict[str, Iterator[int]] = {}
        self._lock = threading.Lock()
        self._runtime = TorchRuntime()
        self._rank = self._runtime.rank()
        self._time = datetime.now().strftime("%Y%m%d%H%M%S")
        self._pid = os.getpid()
        make_folder(folder)
        self.path = folder / self._name()
        self._file = open_private(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._ended = False
        self._size = 0
        self._append(f"{_BYTE_ORDER_MARK}api_name,stack\r\n")

    def around(
        self, source: RandomSource, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call ``original``, add a row unless it could draw numbers but did not, and return its result."""
        before = torch.get_rng_state() if source.name in _DRAW_SOMETIMES else None
        result = original(*args, **kwargs)
        if before is None or not bool((before == torch.get_rng_state()).all()):
            self._add_row(source)
        return result

    def _add_row(self, source: RandomSource) -> None:
        if self._ended or os.getpid() != self._pid:  # a forked data loader worker: the table is its parent's
            return
        with self._lock:
            name = f"{source.library}.{source.name}"
            number = next(self._counters.setdefault(name, itertools.count()))
            stack = "".join(f"{frame} \n" for frame in self._stacks.text(self._stacks.capture()))
            row = io.StringIO()
            csv.writer(row).writerow([f"{name}.{number}", stack])
            try:
                self._follow_rank()
                self._append(row.getvalue())
            except OSError as error:
                let_through(error)
                self._end(error)

    def _append(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])
        self._size += written

    def _end(self, error: OSError) -> None:
        """Cut the table after its last whole row, and write no more."""
        self._ended = True
        with ignored(OSError):
            os.ftruncate(self._file, self._size)
        logger.error(
            "cannot write %s (%s): random calls are listed no more, the run goes on. %s.",
            self.path,
            error.strerror or error,
            disk_remedy(error, "folder for random_save"),
        )

    def _follow_rank(self) -> None:
        """Rename the table when the rank has become known, which is often after the first call."""
        if self._rank is None and (rank := self._runtime.rank()) is not None:
            self._rank = rank
            renamed = self.path.with_name(self._name())
            self.path = self.path.rename(renamed)

    def _name(self) -> str:
        process = f"proc{self._pid}" if self._rank is None else f"rank{self._rank}"
        return f"random_{process}_{self._time}.csv"


Around = Callable[[RandomSource, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def random_patches(around: Around, further: Iterable[RandomSource] = ()) -> Patches:
    """Return patches, not yet applied, that replace the outermost call of each source.

    Args:
        around: called as ``around(source, original, args, kwargs)``; returns the result of the call.
        further: functions to replace besides those that draw numbers, such as those that seed.
    """
    list_device_constructors()
    patches = Patches()
    inside = threading.local()
    for source in (*random_sources(), *further):
        original = getattr(source.owner, source.name)
        patches.plan(source.owner, source.name, _outermost_call(source, original, around, inside))
    show_originals(patches)
    return patches


def _outermost_call(source: RandomSource, original: Callable[..., Any], around: Around, inside: threading.local) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "busy", False):
            return original(*args, **kwargs)
        inside.busy = True
        try:
            return around(source, original, args, kwargs)
        finally:
            inside.busy = False

    functools.update_wrapper(call, original, updated=())
    skip_in_dynamo(call, inside=True)
    return call


def random_sources() -> Iterator[RandomSource]:
    """Yield all sources in this process and version of PyTorch."""
    yield from host_sources()
    owners = {
        "torch_random": (torch, torch._VF),
        "tensor_random": (torch.Tensor,),
        "functional_random": (torch.nn.functional,),
    }
    names = sorted(tagged_operators())
    for library, holders in owners.items():
        for owner in holders:
            yield from (RandomSource(library, owner, name) for name in names if callable(getattr(owner, name, None)))


def tagged_operators() -> set[str]:
    """Return the names of the operators that PyTorch itself marks as drawing from a seeded generator.

    Of the private ones only those count that take a generator, such as ``_standard_gamma``, which distributions call.
    """
    names = set()
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != _TAGGED_NAMESPACE or name in names:
            continue
        operator = torch._C._get_operation_overload(f"{namespace}::{name}", overload)
        if operator is None or torch.Tag.nondeterministic_seeded not in operator[2]:
            continue
        if not name.startswith("_") or _takes_generator(name, overload):
            names.add(name)
    return names


def _takes_generator(name: str, overload: str) -> bool:
    return any(argument.name == "generator" for argument in torch._C._get_schema(f"aten::{name}", overload).arguments)


class RandomState:
    """The states of Python's, numpy's and PyTorch's shared generators (CPU, and devices already in use)."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._devices = [(device, device.get_rng_state_all()) for device in _devices()]

    def restore(self, library: str) -> None:
        """Set the generator that ``library`` draws from to this state."""
        if library == "python_random":
            random.setstate(self._python)
        elif library == "numpy_random":
            np.random.set_state(self._numpy)
        else:
            torch.set_rng_state(self._torch)
            for device, states in self._devices:
                device.set_rng_state_all(states)


def _devices() -> list[Any]:
    devices = [getattr(torch, name, None) for name in ("cuda", "npu")]
    return [device for device in devices if device is not None and device.is_available()]
