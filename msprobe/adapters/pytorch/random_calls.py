"""``random_save``: where a program draws random numbers, as a table of calls and their stacks.

    random_save("./output")      ./output/random_{rank{R} | proc{pid}}_{time}.csv with the columns api_name, stack

An ``api_name`` is ``{library}.{function}.{count}``, for example ``torch_random.randn.0``. Every call is on disk when it
returns. A table that cannot be written any more ends with one line in the log; the program goes on.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from msprobe.adapters.pytorch.random_sources import Source, replaced
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.core.capture.stack import StackTable
from msprobe.core.errors import FileCheckException, MsprobeException, argument_text, error_text
from msprobe.core.log import logger
from msprobe.core.store.atomic import make_folder, open_private

_DRAW_SOMETIMES = {"gru", "lstm", "rnn_relu", "rnn_tanh", "scaled_dot_product_attention"}
_BYTE_ORDER_MARK = "\ufeff"
_active: RandomCalls | None = None


def random_save(output_path: str = "./output") -> None:
    """Write every random call from now on into a table below ``output_path``; later calls in the process do nothing.

    Raises:
        MsprobeException: the path is no str.
        FileCheckException: code 3, the table cannot be created there.
    """
    global _active
    asked: object = output_path
    if not isinstance(asked, str) or not asked:
        raise MsprobeException(0, f"random_save: output_path is a non-empty str, got {argument_text(asked)}")
    if _active is not None:
        logger.warning("random_save is on already and writes to %s", _active.path)
        return
    try:
        _active = RandomCalls(Path(output_path).absolute())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        where = f"random_save: output_path {argument_text(output_path)}"
        raise FileCheckException(
            3, f"{where} cannot be written ({error_text(error)}); give a folder that can be"
        ) from error
    replaced(_active.around).apply()
    logger.info("calls of random functions go to %s", _active.path)


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
        self, source: Source, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call ``original`` and note the call, unless it could draw numbers but did not."""
        before = torch.get_rng_state() if source.name in _DRAW_SOMETIMES else None
        result = original(*args, **kwargs)
        if before is None or not bool((before == torch.get_rng_state()).all()):
            self._note(source)
        return result

    def _note(self, source: Source) -> None:
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
                self._end(error)

    def _append(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])
        self._size += written

    def _end(self, error: OSError) -> None:
        """Keep the whole rows, and write no more."""
        self._ended = True
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._size)
        logger.error(
            "cannot write %s (%s): random calls are listed no more, the run goes on. "
            "Free some space or give random_save another folder.",
            self.path,
            error.strerror or error,
        )

    def _follow_rank(self) -> None:
        """The rank is often known only later: the table then takes its name."""
        if self._rank is None and (rank := self._runtime.rank()) is not None:
            self._rank = rank
            renamed = self.path.with_name(self._name())
            self.path = self.path.rename(renamed)

    def _name(self) -> str:
        process = f"proc{self._pid}" if self._rank is None else f"rank{self._rank}"
        return f"random_{process}_{self._time}.csv"
