"""Replace the arguments of a module call by recorded tensors.

A tensor nested in a list, tuple or dict is replaced too. A tensor that was not recorded, or whose file cannot be used,
stays live with a warning: a file may hold anything, and the call belongs to the user.
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
