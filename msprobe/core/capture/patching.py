"""Replace attributes of modules, classes and objects, and restore them.

``Patches`` remembers whether each attribute was its owner's own or inherited, so that both come back as they were.
``find_holder`` resolves names with dots, because a listed function may be in a submodule or a class of its module.

A function has one name, by which pickle looks for it, and an original may stand at several places of which one is
replaced. ``name_after_owner`` settles which name a replacement has.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
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
        """Add a replacement; it takes effect at the next ``apply`` (at once if they are applied already).

        A function is named so that pickle finds it there (``name_after_owner``).
        """
        name_after_owner(getattr(replacement, "__func__", replacement), owner, name)
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


def name_after_owner(wrapper: Any, owner: Any, attribute: str) -> None:
    """Name ``wrapper`` so that pickle, which goes by the name, finds it at the attribute that it is set to.

    It gets the names of what it replaces where they lead to the attribute, and where pickle finds no function of Python
    under them without the wrapper either. Otherwise they lead past the attribute, to the original: that of a function
    imported from elsewhere stands where it is written, and functions written in C have the name of a class of their C
    module. Their wrappers are named after the attribute, below the module of the original if it lies there. A wrapper
    that is set at several places is named after the last.
    """
    if not isinstance(wrapper, FunctionType) or not isinstance(owner, (type, ModuleType)):
        return
    replaced = getattr(owner, attribute, None)
    module, name = getattr(replaced, "__module__", None), getattr(replaced, "__qualname__", attribute)
    pickled = not isinstance(replaced, FunctionType) or _found(module, name) == replaced
    if _leads_to(module, name, owner, attribute) or not pickled:
        wrapper.__module__, wrapper.__qualname__ = module, name  # type: ignore[assignment]
    elif isinstance(owner, type):
        wrapper.__module__, wrapper.__qualname__ = owner.__module__, f"{owner.__qualname__}.{attribute}"
        if not hasattr(replaced, "__module__") and _is_found_by_search(owner):
            wrapper.__module__ = None  # type: ignore[assignment]
    else:
        wrapper.__module__, wrapper.__qualname__ = _below(module, owner.__name__, attribute)


def _leads_to(module: str | None, name: str, owner: Any, attribute: str) -> bool:
    path, _, last = name.rpartition(".")
    return last == attribute and _found(module, path) is owner


@functools.lru_cache
def _is_found_by_search(owner: type) -> bool:
    """Return whether pickle, which looks into all modules for a function without one, finds those of a class.

    It gives up at the first module that raises something else than AttributeError, as ``torch.classes`` does.
    """
    for module in tuple(sys.modules):
        try:
            if _found(module, f"{owner.__qualname__}.__mro__") is owner.__mro__:
                return True
        except Exception:  # noqa: BLE001  (a module may raise whatever it likes)
            return False
    return False


def _below(home: str | None, module: str, attribute: str) -> tuple[str, str]:
    """Return module and name of an attribute of ``module``: ``home`` and the path from there, if it leads there."""
    path = module.removeprefix(f"{home}.")
    if path != module and _found(home, path) is sys.modules.get(module):
        return str(home), f"{path}.{attribute}"
    return module, attribute


def _found(module: str | None, path: str) -> Any:
    """Return what stands at ``path``, a name with dots, of a module that was imported; None where nothing does."""
    found: Any = None if module is None else sys.modules.get(module)
    for part in path.split(".") if path else ():
        found = None if found is None else getattr(found, part, None)
    return found


def find_holder(owner: Any, name: str) -> tuple[Any, str]:
    """Return the object below ``owner`` that holds the last part of ``name``, and that part.

    The object is None where one on the way is missing.
    """
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return owner, last
