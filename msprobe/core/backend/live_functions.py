"""What a framework must offer so that a call of a running program can be run again (``tasks.checked_calls``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from msprobe.core.backend.replaying import Execution, HeldTensor, PreparedCall, Replayer


class LiveFunctions(Protocol):
    """Copies the arguments of calls that a program makes, and runs them again."""

    def prepare(self, prefix: str, api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PreparedCall:
        """Return a call with copies of all its tensors.

        Raises:
            CannotReplayError: an argument cannot be given again without touching what the program owns.
        """
        ...

    def device(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the device of the first tensor among the arguments; that of the CPU without one."""
        ...

    def signature(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        """Return what is equal for calls with tensors of the same dtypes and shapes."""
        ...

    def operators(self) -> Replayer:
        """Return what runs operators again by their names."""
        ...

    def held(self, tensor: Any) -> HeldTensor:
        """Return a copy of the values of a tensor."""
        ...

    def execution(self, result: Any) -> Execution:
        """Return what a function returned, with copies of its tensors."""
        ...

    def arguments(self, call: PreparedCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a prepared call as tensors on the CPU."""
        ...

    def replayer(self, function: Callable[..., Any]) -> Replayer:
        """Return what runs every call with ``function``, whatever its name."""
        ...

    def program_state(self) -> Any:
        """Return the state that the program is in, for ``PreparedCall.program_state``."""
        ...

    def has_drawn(self, state: Any) -> bool:
        """Return whether random numbers were drawn since the program was in a state."""
        ...

    def improved(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], to_cpu: bool
    ) -> tuple[bool, Any]:
        """Return whether the function has a more precise result, and that result in the dtypes and on the devices that
        its own has. Gradients flow through it. Arguments are not changed where it has none.

        Args:
            to_cpu: run it on the CPU; else on the device of its arguments. 16-bit floats become float32.
        """
        ...
