"""From the name of a recorded call to the function of the torch-shaped namespace that it stands for.

A name is looked up in the table by which calls are recorded. It is never imported or evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from msprobe.adapters.msadapter.taps.api_tap import SUBMODULES
from msprobe.core.backend.custom_functions import find_custom
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.capture.patching import find_holder

_OF_TORCH = ("Torch", "Tensor", "Functional")


class RecordedFunctions:
    """Finds functions by the names that dumps give them.

    Args:
        torch: the torch-shaped namespace.
        table: names of functions by the prefix of their records; a dotted name is recorded under its last part.
        custom: modules of the user by prefix.
    """

    def __init__(
        self, torch: ModuleType, table: Mapping[str, Sequence[str]], custom: Mapping[str, Any] | None = None
    ) -> None:
        self._torch, self._custom = torch, dict(custom or {})
        self._names: dict[tuple[str, str], list[str]] = {}
        for prefix in _OF_TORCH:
            for name in table.get(prefix, ()):
                self._names.setdefault((prefix, name.rpartition(".")[2]), []).append(name)

    def find(self, prefix: str, api: str, attributes: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """Return the function that is recorded as ``PREFIX.API``.

        Raises:
            CannotReplayError: there is none.
        """
        if function := find_custom(self._custom, prefix, api):
            return function
        for name in self._names.get((prefix, api), ()):
            owner, last = find_holder(self._torch, SUBMODULES[prefix] + name)
            found: Callable[..., Any] | None = getattr(owner, last, None)
            if callable(found):
                return found
        raise CannotReplayError(f"{prefix}.{api} is no function that msprobe records of this MSAdapter")

    def expression(self, prefix: str, api: str, attributes: str = "") -> str:
        """Return the expression that names the function, such as ``torch.nn.functional.linear``.

        Raises:
            CannotReplayError: there is none.
        """
        self.find(prefix, api)
        return f"torch.{SUBMODULES[prefix]}{api}"
