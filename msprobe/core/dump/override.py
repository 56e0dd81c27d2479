"""``load``: feed recorded inputs to chosen module calls instead of the live ones.

    {"load": {"path": "golden", "modules": ["Module.fc1.Linear.forward.0"]}}

Each tensor argument of such a call is replaced by ``golden/step{N}/{rank}/dump_tensor_data/{name}.input.{i}.pt`` (or
``.kwargs.{key}.pt``, deeper for nested values). The present step and rank choose the folder; ``step`` and ``rank`` of
the section choose where inputs are replaced at all. An argument that was not recorded stays live, with a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from msprobe.core.config.dump_config import LoadConfig
from msprobe.core.config.problems import nearest
from msprobe.core.dump.golden import golden_folder
from msprobe.core.log import logger
from msprobe.core.store.layout import TENSORS, file_name


class InputOverride:
    """Count the calls of modules, and find the files of calls whose inputs are replaced."""

    def __init__(self, config: LoadConfig) -> None:
        self._root = Path(config.path).absolute()
        self._names = frozenset(config.modules)
        self._steps = config.step
        self._ranks = config.rank
        self._calls: dict[str, Iterator[int]] = {}
        self._folder: Path | None = None
        self._missed: set[str] = set()

    def active(self, step: int, rank: int | None) -> bool:
        """Return whether inputs are replaced in this step and rank."""
        return (not self._steps or step in self._steps) and (
            not self._ranks or (rank is not None and rank in self._ranks)
        )

    def open(self, step: int, rank: int | None) -> None:
        """Use the inputs recorded in ``step``; calls are counted from 0.

        Raises:
            MsprobeException: the step was recorded by several processes and the present one has no rank.
        """
        self._calls = {}
        self._missed = set(self._names)
        self._folder = golden_folder(self._root, step, rank)
        if self._folder is None:
            logger.warning("load.path: no recorded inputs for step %d in %s: the live ones are used", step, self._root)

    def next_call(self, stem: str) -> str | None:
        """Count a call of a module; return the name of the call when its inputs are to be replaced, else None."""
        number = next(self._calls.setdefault(stem, itertools.count()))
        name = f"{stem}.forward.{number}"
        if self._folder is None or name not in self._names:
            return None
        self._missed.discard(name)
        return name

    def close(self) -> None:
        """End the step: warn about calls that never came."""
        missed, self._missed = sorted(self._missed), set()
        for name in missed if self._folder is not None else ():
            close = nearest(name.partition(".forward.")[0], self._calls)
            hint = f"; {close} was called" if close else ""
            logger.warning("load: %s did not come in this step, nothing was fed to it%s", name, hint)

    def file(self, name: str, suffix: str) -> Path | None:
        """Return the file of the recorded tensor ``name`` (``{call}.input.0``); warn and return None without one."""
        if self._folder is None:
            return None
        path = self._folder / TENSORS / file_name(name, suffix)
        if path.is_file():
            return path
        logger.warning("load: %s was not recorded (no %s): the live tensor is used", name, path)
        return None
