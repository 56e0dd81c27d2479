"""From the name of a framework, as a dump gives it, to what runs its calls again."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from msprobe.core.backend.custom_functions import import_custom
from msprobe.core.backend.replaying import Replayer
from msprobe.core.errors import InterfaceError, error_text

_RUNNERS: Mapping[str, str] = {
    "pytorch": "msprobe.adapters.pytorch.replay.runner",
    "mindspore": "msprobe.adapters.mindspore.replay.runner",
    "mindtorch": "msprobe.adapters.msadapter.replay.runner",
}


def make_replayer(framework: str, custom: Mapping[str, str] | None = None) -> Replayer:
    """Return what runs the calls of a framework again; the framework is imported now.

    Args:
        framework: the key ``framework`` of a dump.
        custom: modules of the user, by the prefix of their records.

    Raises:
        InterfaceError: msprobe cannot run calls of it, or it cannot be imported.
    """
    module = _RUNNERS.get(framework)
    if module is None:
        raise InterfaceError(
            f"calls of the framework {framework!r} cannot be run again; known are {', '.join(_RUNNERS)}"
        )
    try:
        return cast(Replayer, importlib.import_module(module).make_replayer(import_custom(custom or {})))
    except ImportError as error:
        raise InterfaceError(f"{framework} is needed to run its calls again: {error_text(error)}") from error
