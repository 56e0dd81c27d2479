"""Recorded inputs in place of live ones: the arguments of one module call with every recorded tensor put in.

A value nested in a list, tuple or dict is replaced too. What was not recorded, or cannot be used, stays as it is and
is told: a file may hold anything, and the call belongs to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.parts import DEPTH_LIMIT, with_parts
from msprobe.core.errors import error_text
from msprobe.core.log import logger


class FedInputs:
    """Puts recorded tensors of one framework in.

    Args:
        is_tensor: whether a type is that of its tensors.
        suffix: the ending of its tensor files, such as ``.pt``.
        read: makes the tensor of a file stand in for a live one. May raise anything.
        reason: what an exception of ``read`` means, on one line.
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
        """The arguments of the call ``name`` as they were recorded."""
        fed = tuple(self._replaced(value, f"{name}.input.{place}", source) for place, value in enumerate(args))
        named = {key: self._replaced(value, f"{name}.kwargs.{key}", source) for key, value in kwargs.items()}
        logger.info("load: %s gets recorded inputs", name)
        return fed, named

    def _replaced(self, value: Any, place: str, source: InputSource, depth: int = 0) -> Any:
        try:
            return self._recorded(value, place, source, depth)
        except Exception as error:  # noqa: BLE001  (a key that cannot be shown, a tensor without a shape)
            logger.warning("load: %s cannot be fed (%s): the live value is used", place, error_text(error))
            return value

    def _recorded(self, value: Any, place: str, source: InputSource, depth: int) -> Any:
        if self._is_tensor(type(value)):
            path = source.file(place, self._suffix)
            return value if path is None else self._loaded(path, place, value)
        if depth >= DEPTH_LIMIT or type(value) not in (list, tuple, dict):  # deeper nothing is recorded
            return value
        return with_parts(value, lambda key, part: self._replaced(part, f"{place}.{key}", source, depth + 1))

    def _loaded(self, path: Path, place: str, live: Any) -> Any:
        try:
            tensor = self._read(path, live)
        except Exception as error:  # noqa: BLE001  (a damaged file can make a reader raise anything)
            logger.warning("load: %s cannot be read (%s): the live tensor is used", path, self._reason(error))
            return live
        if tensor.shape != live.shape or tensor.dtype != live.dtype:
            logger.warning(
                "load: %s was recorded as %s %s, the live one is %s %s: the recorded one is used",
                *(place, tensor.dtype, list(tensor.shape), live.dtype, list(live.shape)),
            )
        return tensor
