"""Feed recorded inputs to chosen module calls instead of the live ones (section ``load`` of the configuration).

    {"load": {"path": "golden", "modules": ["Module.fc1.Linear.forward.0"]}}

Each tensor argument of such a call is replaced by ``golden/step{N}/{rank}/dump_tensor_data/{name}.input.{i}.pt`` (or
``.kwargs.{key}.pt``, deeper for tensors in lists, tuples and dicts). ``InputOverride`` chooses the calls and the files:
the present step and rank choose the folder, ``step`` and ``rank`` of the section choose where inputs are replaced at
all. ``FedInputs`` replaces the arguments of a call. A tensor that was not recorded, or whose file cannot be used, stays
live with a warning, because a file may hold anything and the call belongs to the user.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.containers import DEPTH_LIMIT, with_parts
from msprobe.core.config.models import LoadConfig
from msprobe.core.config.problems import nearest
from msprobe.core.dump.tasks.live_compare import golden_folder
from msprobe.core.errors import error_text
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
        """End the step: warn about calls that did not happen."""
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


class FedInputs:
    """Replace tensors of one framework by recorded ones.

    Args:
        is_tensor: returns whether a type is that of its tensors.
        suffix: the ending of its tensor files, such as ``.pt``.
        read: returns the tensor of a file, prepared to replace the live tensor. May raise anything.
        reason: returns what an exception of ``read`` means, on one line.
    """

    def __init__(
        self,
        is_tensor: Callable[[type], bool],
        suffix: str,
        read: Callable[[Path, Any], Any],
        reason: Callable[[BaseException], str] = error_text,
    ) -> None:
        self._is_tensor = is_tensor
        self._suffix = suffix
        self._read = read
        self._reason = reason

    def arguments(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], source: InputSource
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the call ``name`` as they were recorded."""
        positional = tuple(self._replaced(value, f"{name}.input.{index}", source) for index, value in enumerate(args))
        keywords = {key: self._replaced(value, f"{name}.kwargs.{key}", source) for key, value in kwargs.items()}
        logger.info("load: %s gets recorded inputs", name)
        return positional, keywords

    def _replaced(self, value: Any, name: str, source: InputSource, depth: int = 0) -> Any:
        try:
            return self._recorded(value, name, source, depth)
        except Exception as error:  # noqa: BLE001  (a key that cannot be shown, a tensor without a shape)
            logger.warning("load: %s cannot be fed (%s): the live value is used", name, error_text(error))
            return value

    def _recorded(self, value: Any, name: str, source: InputSource, depth: int) -> Any:
        if self._is_tensor(type(value)):
            path = source.file(name, self._suffix)
            return value if path is None else self._loaded(path, name, value)
        if depth >= DEPTH_LIMIT or type(value) not in (list, tuple, dict):  # deeper values are not recorded
            return value
        return with_parts(value, lambda key, part: self._replaced(part, f"{name}.{key}", source, depth + 1))

    def _loaded(self, path: Path, name: str, live: Any) -> Any:
        try:
            tensor = self._read(path, live)
        except Exception as error:  # noqa: BLE001  (a damaged file can make a reader raise anything)
            logger.warning("load: %s cannot be read (%s): the live tensor is used", path, self._reason(error))
            return live
        if tensor.shape != live.shape or tensor.dtype != live.dtype:
            logger.warning(
                "load: %s was recorded as %s %s, the live one is %s %s: the recorded one is used",
                *(name, tensor.dtype, list(tensor.shape), live.dtype, list(live.shape)),
            )
        return tensor
