"""Feed recorded inputs to chosen module calls instead of the live ones (section ``load`` of the configuration).

    {"load": {"path": "golden", "modules": ["Module.fc1.Linear.forward.0"]}}

Each tensor argument of such a call is replaced by ``golden/step{N}/{rank}/dump_tensor_data/{name}.input.{i}.pt`` (or
``.kwargs.{key}.pt``, deeper for tensors in lists, tuples and dicts). ``InputOverride`` chooses the calls and the files:
the present step and rank choose the folder, ``step`` and ``rank`` of the section choose where inputs are replaced at
all. ``FedInputs`` replaces the arguments of a call. A tensor that was not recorded, or whose file cannot be used, stays
live with a warning, because a file may hold anything and the call belongs to the user.

Without ``modules`` every recorded call is fed, and gradients go on to the modules before: each module is then judged by
itself. The folder of a rank may hold a plan instead of tensors (``msprobe split_inputs``): which part of which tensor
of a run in another layout belongs to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.containers import DEPTH_LIMIT, with_parts
from msprobe.core.config.models import LoadConfig
from msprobe.core.config.problems import nearest
from msprobe.core.dump.tasks.input_plan import read_plan
from msprobe.core.dump.tasks.live_compare import golden_folder
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.layout import TENSORS, file_name
from msprobe.core.tensors.input_parts import InputPart, cut


def feeds(config: LoadConfig | None, step: int, rank: int | None) -> TypeGuard[LoadConfig]:
    """Return whether inputs are replaced in this step and rank."""
    return (
        config is not None
        and (not config.step or step in config.step)
        and (not config.rank or (rank is not None and rank in config.rank))
    )


class InputOverride:
    """Count the calls of modules, and find the files of calls whose inputs are replaced."""

    def __init__(self, config: LoadConfig) -> None:
        self._root = Path(config.path).absolute()
        self._names = None if config.modules is None else frozenset(config.modules)
        self._config = config
        self._calls: dict[str, Iterator[int]] = {}
        self._folder: Path | None = None
        self._plan: Mapping[str, InputPart] | None = None
        self._planned: frozenset[str] = frozenset()
        self._missed: set[str] = set()

    def active(self, step: int, rank: int | None) -> bool:
        """Return whether inputs are replaced in this step and rank."""
        return feeds(self._config, step, rank)

    def open(self, step: int, rank: int | None) -> None:
        """Use the inputs recorded in ``step``; calls are counted from 0.

        Raises:
            MsprobeException: the step was recorded by several processes and the present one has no rank.
        """
        self._calls = {}
        self._missed = set(self._names or ())
        self._folder = golden_folder(self._root, step, rank)
        if self._folder is None:
            logger.warning("load.path: no recorded inputs for step %d in %s: the live ones are used", step, self._root)
            return
        self._plan = read_plan(self._folder)
        self._planned = frozenset(map(_call_of, self._recorded_names(self._folder)))
        if self._names is None:
            logger.info("load: %d calls get recorded inputs of %s", len(self._planned), self._folder)

    def _recorded_names(self, folder: Path) -> Iterable[str]:
        """Return the names of the tensors that there are."""
        return (
            self._plan
            if self._plan is not None
            else (file.name for file in folder.joinpath(TENSORS).glob("*.forward.*"))
        )

    def next_call(self, stem: str) -> str | None:
        """Count a call of a module; return the name of the call when its inputs are to be replaced, else None."""
        number = next(self._calls.setdefault(stem, itertools.count()))
        name = f"{stem}.forward.{number}"
        if self._folder is None or name not in (self._planned if self._names is None else self._names):
            return None
        self._missed.discard(name)
        if self._names is not None:
            logger.info("load: %s gets recorded inputs", name)
        return name

    def close(self) -> None:
        """End the step: warn about calls that did not happen."""
        missed, self._missed = sorted(self._missed), set()
        for name in missed if self._folder is not None else ():
            close = nearest(name.partition(".forward.")[0], self._calls)
            hint = f"; {close} was called" if close else ""
            logger.warning("load: %s did not come in this step, nothing was fed to it%s", name, hint)

    def part(self, name: str, suffix: str) -> InputPart | None:
        """Return the file of the recorded tensor ``name``, and which part of it is wanted; warn and return None without
        one. Where every recorded call is fed, gradients go through. What a plan leaves out stays live in silence:
        ``split_inputs`` has said why."""
        if self._folder is None or (self._plan is not None and name not in self._plan):
            return None
        plain = InputPart(self._folder.joinpath(TENSORS).joinpath(file_name(name, suffix)))
        part = plain if self._plan is None else self._plan[name]
        if part.file.is_file():
            return part._replace(through=self._names is None)
        logger.warning("load: %s was not recorded (no %s): the live tensor is used", name, part.file)
        return None


def _call_of(tensor: str) -> str:
    """Return the name of the call in that of a tensor: what stands before ``.input.`` or ``.kwargs.``."""
    head, _, rest = tensor.partition(".forward.")
    return f"{head}.forward.{rest.partition('.')[0]}"


class FedInputs:
    """Replace tensors of one framework by recorded ones.

    Args:
        is_tensor: returns whether a type is that of its tensors.
        suffix: the ending of its tensor files, such as ``.pt``.
        read: returns the tensor of a file for a live tensor. May raise anything.
        adopt: returns a recorded tensor as the one that replaces a live tensor; gradients go on to the live one where
            the third argument says so.
        reason: returns what an exception of ``read`` means, on one line.
    """

    def __init__(
        self,
        is_tensor: Callable[[type], bool],
        suffix: str,
        read: Callable[[Path, Any], Any],
        adopt: Callable[[Any, Any, bool], Any],
        reason: Callable[[BaseException], str] = error_text,
    ) -> None:
        self._is_tensor = is_tensor
        self._suffix = suffix
        self._read = read
        self._adopt = adopt
        self._reason = reason

    def arguments(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], source: InputSource
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the call ``name`` as they were recorded."""
        positional = tuple(self._replaced(value, f"{name}.input.{index}", source) for index, value in enumerate(args))
        keywords = {key: self._replaced(value, f"{name}.kwargs.{key}", source) for key, value in kwargs.items()}
        return positional, keywords

    def _replaced(self, value: Any, name: str, source: InputSource, depth: int = 0) -> Any:
        try:
            return self._recorded(value, name, source, depth)
        except Exception as error:  # noqa: BLE001  (a key that cannot be shown, a tensor without a shape)
            let_through(error)
            logger.warning("load: %s cannot be fed (%s): the live value is used", name, error_text(error))
            return value

    def _recorded(self, value: Any, name: str, source: InputSource, depth: int) -> Any:
        if self._is_tensor(type(value)):
            part = source.part(name, self._suffix)
            return value if part is None else self._loaded(part, name, value)
        if depth >= DEPTH_LIMIT or type(value) not in (list, tuple, dict):  # deeper values are not recorded
            return value
        return with_parts(value, lambda key, part: self._replaced(part, f"{name}.{key}", source, depth + 1))

    def _loaded(self, part: InputPart, name: str, live: Any) -> Any:
        try:
            tensor = cut(self._read(part.file, live), part.ranges)
        except Exception as error:  # noqa: BLE001  (a damaged file can make a reader raise anything)
            let_through(error)
            logger.warning("load: %s cannot be read (%s): the live tensor is used", part.file, self._reason(error))
            return live
        if tensor.shape != live.shape or tensor.dtype != live.dtype:
            logger.warning(
                "load: %s was recorded as %s %s, the live one is %s %s: the recorded one is used",
                *(name, tensor.dtype, list(tensor.shape), live.dtype, list(live.shape)),
            )
        return self._adopt(tensor, live, part.through)
