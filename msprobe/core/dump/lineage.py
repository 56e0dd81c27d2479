"""The calls that a record depends on, beside its own inputs.

A backward works on values that its forward saved; the gradient of a parameter is made by the backwards of all calls of
its module. Neither can be judged by itself when those calls were not sound. The judge decides what is sound.
"""

from __future__ import annotations

from msprobe.core.naming.model import Phase


class CallDependencies:
    """The judged calls of one step."""

    def __init__(self) -> None:
        self._unsound: set[str] = set()
        self._pending: dict[str, set[str]] = {}  # calls of a module whose backward is still to come, by the module

    def record(self, name: str, sound: bool) -> None:
        """Note that the forward or backward call ``name`` is over, and whether it was sound."""
        owner, call, phase = split_name(name)
        if phase == Phase.FORWARD.value and owner != call:
            self._pending.setdefault(owner, set()).add(call)
        elif owner in self._pending:
            self._pending[owner].discard(call)
        if not sound:
            self._unsound.update((owner, call))

    def is_sound(self, name: str) -> bool:
        """Return whether every call that ``name`` depends on was sound, as far as these calls are over."""
        owner, call, phase = split_name(name)
        if phase == Phase.FORWARD.value:
            return True
        return (owner if phase == Phase.PARAMETERS_GRAD.value else call) not in self._unsound

    def is_complete(self, name: str) -> bool:
        """Return whether every call of the module of the gradient ``name`` had its backward."""
        return not self._pending.get(split_name(name)[0])


def split_name(name: str) -> tuple[str, str, str]:
    """Return the module or function, the call and the phase of an entry.

    ``M.forward.0`` and ``M.backward.0`` are of the same call, ``M.0``; that of ``Torch.add.0.forward`` is
    ``Torch.add.0``, which is the function as well.
    """
    head, _, last = name.rpartition(".")
    if last in (Phase.FORWARD.value, Phase.BACKWARD.value):
        return head, head, last
    owner, _, phase = head.rpartition(".")
    return owner, f"{owner}.{last}", phase
