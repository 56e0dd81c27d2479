"""What a later record depends on that is not among its own inputs.

A backward works on what its forward saved; a parameter's gradient is made by the backwards of all calls of its module.
So neither can be judged by itself where those calls were not sound. What "sound" means is the judge's to say.
"""

from __future__ import annotations

from msprobe.core.naming.model import Phase


class Lineage:
    """The calls of one step as far as they have been judged."""

    def __init__(self) -> None:
        self._unsound: set[str] = set()
        self._awaited: dict[str, set[str]] = {}

    def note(self, name: str, sound: bool) -> None:
        """A forward or backward call is over."""
        owner, call, phase = split(name)
        if phase == Phase.FORWARD.value and owner != call:
            self._awaited.setdefault(owner, set()).add(call)
        elif owner in self._awaited:
            self._awaited[owner].discard(call)
        if not sound:
            self._unsound.update((owner, call))

    def sound(self, name: str) -> bool:
        """Whether all that the backward call or gradient ``name`` depends on was sound as far as it is over."""
        owner, call, phase = split(name)
        if phase == Phase.FORWARD.value:
            return True
        return (owner if phase == Phase.PARAMETERS_GRAD.value else call) not in self._unsound

    def complete(self, name: str) -> bool:
        """Whether every call of the module of the gradient ``name`` had its backward."""
        return not self._awaited.get(split(name)[0])


def split(name: str) -> tuple[str, str, str]:
    """The module or function, the call and the phase: ``M.forward.0`` and ``M.backward.0`` are of the same call."""
    head, _, last = name.rpartition(".")
    if last in (Phase.FORWARD.value, Phase.BACKWARD.value):
        return head, head, last
    owner, _, phase = head.rpartition(".")
    return owner, f"{owner}.{last}", phase
