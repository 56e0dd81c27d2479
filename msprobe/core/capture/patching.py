"""Replace attributes of modules, classes and objects, and restore them.

``Patches`` remembers whether each attribute was its owner's own or inherited, so that both come back as they were.
``find_holder`` resolves names with dots, because a listed function may be in a submodule or a class of its module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from msprobe.core.errors import MsprobeException, error_text

_INHERITED = object()

Patch = tuple[Any, str, Any, Any]
"""An owner, the name of its attribute, the replacement, and the attributes of a class or plain module.

More than a thousand of them are applied per step, so the attributes are looked up beforehand: those of a module are a
dict, in which an assignment takes a third of the time of setattr; those of a class can only be read.
"""


class Patches:
    """A set of attribute replacements that can be switched on and off any number of times."""

    def __init__(self) -> None:
        self._planned: list[Patch] = []
        self._replaced: list[Any] = []  # a patch and the original by turns: pairs would be a thousand objects
        self._applied = False

    def plan(self, owner: Any, name: str, replacement: Any) -> None:
        """Add a replacement; it takes effect at the next ``apply`` (at once if they are applied already)."""
        is_plain = type(owner) is ModuleType or isinstance(owner, type)
        members = vars(owner) if is_plain else None
        patch = owner, name, replacement, members
        self._planned.append(patch)
        if self._applied:
            self._replace([patch])

    def drop(self, owner: Any, name: str, replacement: Any) -> None:
        """Remove one replacement from the set; others of the same attribute stay."""
        self._planned = [patch for patch in self._planned if patch[2] is not replacement]
        if not self._applied:
            return
        for index in reversed(range(0, len(self._replaced), 2)):
            if self._replaced[index][0] is owner and self._replaced[index][1] == name:
                _restore(*self._replaced[index : index + 2])
                del self._replaced[index : index + 2]
        self._replace([patch for patch in self._planned if patch[0] is owner and patch[1] == name])

    def apply(self) -> None:
        """Put the replacements in place; does nothing where they are."""
        if self._applied:
            return
        self._applied = True
        self._replace(self._planned)

    def undo(self) -> None:
        """Put every original back, the last replaced first, because patches of one attribute may be stacked.

        An interrupt may come at any point: an entry is removed after its original is back, and putting it back twice
        does no harm.

        Raises:
            Exception: whatever an owner raises that refuses its original; the others are put back all the same.
        """
        self._applied = False
        done = self._replaced
        try:
            while done:
                _restore(*done[-2:])
                del done[-2:]
        except Exception:
            del done[-2:]
            raise
        finally:
            if done:
                self.undo()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Keep the replacements in place inside this context."""
        self.apply()
        try:
            yield
        finally:
            self.undo()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Put the originals back inside this context; afterwards the replacements, if they were in place before."""
        applied = self._applied
        self.undo()
        try:
            yield
        finally:
            if applied:
                self.apply()

    def target_of(self, value: Any) -> tuple[Any, str] | None:
        """Return the owner and name of the attribute that ``value`` replaces; None if it is no replacement."""
        return next(((owner, name) for owner, name, replacement, _ in self._planned if replacement is value), None)

    @property
    def applied(self) -> bool:
        """Whether the replacements are in place."""
        return self._applied

    def _replace(self, patches: Iterable[Patch]) -> None:
        done = self._replaced
        for patch in patches:
            owner, name, replacement, members = patch
            original = (vars(owner) if members is None else members).get(name, _INHERITED)
            done.extend((patch, original))  # in one step, and before: an interrupt may come at any point
            if type(members) is dict:
                members[name] = replacement
            else:
                setattr(owner, name, replacement)


def require_patchable(owner: Any, name: str, prefix: str) -> None:
    """Check that an attribute can be replaced.

    Raises:
        MsprobeException: code 0, its owner refuses.
    """
    if reason := _refusal_reason(owner, name):
        raise MsprobeException(
            0,
            f"{prefix}.{name} cannot be recorded: its owner lets no function be replaced ({reason}); "
            "call it through a function of your own and register that",
        )


def _refusal_reason(owner: Any, name: str) -> str | None:
    try:
        original = vars(owner).get(name, _INHERITED)
        setattr(owner, name, getattr(owner, name))
        _restore((owner, name, None, None), original)
    except Exception as error:  # noqa: BLE001  (an owner may refuse with whatever it likes)
        return error_text(error)
    return None


def _restore(patch: Patch, original: Any) -> None:
    owner, name, _, members = patch
    if original is _INHERITED:
        if name in (vars(owner) if members is None else members):
            delattr(owner, name)
    elif type(members) is dict:
        members[name] = original
    else:
        setattr(owner, name, original)


def find_holder(owner: Any, name: str) -> tuple[Any, str]:
    """Return the object below ``owner`` that holds the last part of ``name``, and that part.

    The object is None where one on the way is missing.
    """
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return owner, last
