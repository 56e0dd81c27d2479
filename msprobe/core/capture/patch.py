"""Replace attributes and put them back, remembering whether each was its owner's own or inherited."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from msprobe.core.errors import MsprobeException, error_text

_INHERITED = object()

Patch = tuple[Any, str, Any, Any]
"""An owner, the name of its attribute, what is to be there, and the attributes of a class or plain module.

There are a thousand and more of them per step, so what can be known before is: a module's attributes are a dict, which
takes an assignment in a third of the time of setattr; those of a class can only be read.
"""


class Patches:
    """A set of attribute replacements that can be switched on and off any number of times."""

    def __init__(self) -> None:
        self._planned: list[Patch] = []
        self._in_place: list[Any] = []  # a patch and what was there before, by turns: pairs would be a thousand objects
        self._applied = False

    def plan(self, owner: Any, name: str, replacement: Any) -> None:
        """Add a replacement; it takes effect at the next ``apply`` (at once if they are applied already)."""
        known = type(owner) is ModuleType or isinstance(owner, type)
        members = vars(owner) if known else None
        patch = owner, name, replacement, members
        self._planned.append(patch)
        if self._applied:
            self._put([patch])

    def drop(self, owner: Any, name: str, replacement: Any) -> None:
        """Forget one replacement; others of the same attribute stay."""
        self._planned = [patch for patch in self._planned if patch[2] is not replacement]
        if not self._applied:
            return
        for index in reversed(range(0, len(self._in_place), 2)):
            if self._in_place[index][0] is owner and self._in_place[index][1] == name:
                _put_back(*self._in_place[index : index + 2])
                del self._in_place[index : index + 2]
        self._put([patch for patch in self._planned if patch[0] is owner and patch[1] == name])

    def apply(self) -> None:
        if self._applied:
            return
        self._applied = True
        self._put(self._planned)

    def undo(self) -> None:
        """Put everything back, last replaced first, so that stacked patches of one attribute unwind rightly.

        An owner that refuses raises in the end, when the others are as they were. An interrupt may come at any point:
        what is put back is forgotten afterwards, and what is put back twice is as it was.
        """
        self._applied = False
        done = self._in_place
        try:
            while done:
                _put_back(*done[-2:])
                del done[-2:]
        except Exception:
            del done[-2:]
            raise
        finally:
            if done:
                self.undo()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Inside, and nowhere else, the replacements are in place."""
        self.apply()
        try:
            yield
        finally:
            self.undo()

    @contextlib.contextmanager
    def out_of_sight(self) -> Iterator[None]:
        """Inside, every attribute is the original; then the replacements are back, if they were there."""
        applied = self._applied
        self.undo()
        try:
            yield
        finally:
            if applied:
                self.apply()

    def place_of(self, value: Any) -> tuple[Any, str] | None:
        """The owner and the name of the attribute that ``value`` is to replace, if it is one of the replacements."""
        return next(((owner, name) for owner, name, replacement, _ in self._planned if replacement is value), None)

    @property
    def applied(self) -> bool:
        return self._applied

    def _put(self, patches: Iterable[Patch]) -> None:
        done = self._in_place
        for patch in patches:
            owner, name, replacement, members = patch
            original = (vars(owner) if members is None else members).get(name, _INHERITED)
            done.extend((patch, original))  # in one step, and before: an interrupt may come at any point
            if type(members) is dict:
                members[name] = replacement
            else:
                setattr(owner, name, replacement)


def require_patchable(owner: Any, name: str, prefix: str) -> None:
    """Refuse an attribute that cannot be replaced.

    Raises:
        MsprobeException: code 0.
    """
    if reason := _refusal(owner, name):
        raise MsprobeException(
            0,
            f"{prefix}.{name} cannot be recorded: its owner lets no function be replaced ({reason}); "
            "call it through a function of your own and register that",
        )


def _refusal(owner: Any, name: str) -> str | None:
    try:
        original = vars(owner).get(name, _INHERITED)
        setattr(owner, name, getattr(owner, name))
        _put_back((owner, name, None, None), original)
    except Exception as error:  # noqa: BLE001  (an owner may refuse with whatever it likes)
        return error_text(error)
    return None


def _put_back(patch: Patch, original: Any) -> None:
    owner, name, _, members = patch
    if original is _INHERITED:
        if name in (vars(owner) if members is None else members):
            delattr(owner, name)
    elif type(members) is dict:
        members[name] = original
    else:
        setattr(owner, name, original)
