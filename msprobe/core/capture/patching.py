"""Replace attributes of modules, classes and objects, and restore them.

``Patches`` remembers whether each attribute was its owner's own or inherited, so that both come back as they were.
What the program itself has put there stays: it is called by a wrapper made around it, and is not undone.
``find_holder`` resolves names with dots, because a listed function may be in a submodule or a class of its module.

A function has one name, by which pickle looks for it, and an original may stand at several places of which one is
replaced. ``name_after_owner`` settles which name a replacement has.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import from_outside, let_through

_INHERITED = object()
_MARK = "_msprobe_replacement"

Remake = Callable[[], Any]


class Patch(NamedTuple):
    """One replacement.

    More than a thousand of them are applied per step, so the attributes are looked up beforehand: those of a module are
    a dict, in which an assignment takes a third of the time of setattr; those of a class can only be read.

    Attributes:
        owner, name: whose attribute is replaced.
        replacement: what takes its place.
        members: the attributes of a class or plain module; None for other owners.
        expected: what was there when the replacement was made.
        remake: makes a replacement for what is there now; None where that cannot be replaced.
    """

    owner: Any
    name: str
    replacement: Any
    members: Any
    expected: Any
    remake: Remake | None


class Undoable(Protocol):
    """Something that is in place and can be taken away, as often as one likes."""

    def undo(self) -> object:
        """Take it away."""
        ...


class Undo:
    """Implements ``Undoable`` with a function, which is called until it has returned once.

    A context that an interrupt has cut off may end much later, when its exception is dropped; it must not take away
    what was put in place meanwhile.
    """

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo: Callable[[], object] | None = undo

    def undo(self) -> None:
        if self._undo is not None:
            self._undo()
            self._undo = None


_attaching: ContextVar[list[Undoable] | None] = ContextVar("attaching", default=None)
_covered: dict[int, tuple[Any, Any]] = {}
"""Replacements that lie under others and are no longer in force, by id, with their originals."""


@contextlib.contextmanager
def noted_in(applied: list[Undoable]) -> Iterator[None]:
    """Add whatever is put in place inside this context to ``applied``, before it is."""
    token = _attaching.set(applied)
    try:
        yield
    finally:
        _attaching.reset(token)


def note_applied(replacement: Undoable) -> None:
    """Let the one that attaches taps just now know what is about to be put in place."""
    applied = _attaching.get()
    if applied is not None:
        applied.append(replacement)


class Patches:
    """A set of attribute replacements that can be switched on and off any number of times."""

    def __init__(self) -> None:
        self._planned: list[Patch] = []
        self._remade: list[Patch] = []
        self._replaced: list[Any] = []  # a patch and the original by turns: pairs would be a thousand objects
        self._applied = False

    def plan(self, owner: Any, name: str, replacement: Any, remake: Remake | None = None) -> None:
        """Add a replacement; it takes effect at the next ``apply`` (at once if they are applied already).

        A function is named so that pickle finds it there (``name_after_owner``).

        Args:
            owner, name: whose attribute is replaced.
            replacement: what takes its place.
            remake: makes the replacement anew for what the program has put there since; without it that stays.
        """
        patch = _patch(owner, name, replacement, remake)
        self._planned.append(patch)
        if self._applied:
            self._replace([patch])

    def drop(self, owner: Any, name: str, replacement: Any) -> None:
        """Remove one replacement from the set; others of the same attribute stay."""
        self._planned = [patch for patch in self._planned if patch.replacement is not replacement]
        if not self._applied:
            return
        for index in reversed(range(0, len(self._replaced), 2)):
            if self._replaced[index].owner is owner and self._replaced[index].name == name:
                _restore(*self._replaced[index : index + 2])
                del self._replaced[index : index + 2]
        self._replace([patch for patch in self._planned if patch.owner is owner and patch.name == name])

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
        except Exception as error:
            if from_outside(error) is None:  # an owner that refuses its original would refuse it for ever
                del done[-2:]
            raise
        finally:
            if done:
                self.undo()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Keep the replacements in place inside this context."""
        end = Undo(self.undo)
        note_applied(end)
        try:
            self.apply()
            yield
        finally:
            end.undo()

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
        patches = (*self._planned, *self._remade)
        return next(((patch.owner, patch.name) for patch in patches if patch.replacement is value), None)

    @property
    def applied(self) -> bool:
        """Whether the replacements are in place."""
        return self._applied

    def _replace(self, patches: Iterable[Patch]) -> None:
        done = self._replaced
        for patch in patches:
            owner, name, replacement, members, expected, _ = patch
            original = (vars(owner) if members is None else members).get(name, _INHERITED)
            if original is not expected and not self._is_ours(original):
                remade = self._around(patch, original)
                if remade is None:
                    continue
                patch, replacement = remade, remade.replacement
            if _covered:
                _covered.pop(id(replacement), None)
            done.extend((patch, original))  # in one step, and before: an interrupt may come at any point
            if type(members) is dict:
                members[name] = replacement
            else:
                setattr(owner, name, replacement)

    def _is_ours(self, value: Any) -> bool:
        return _is_wrapper(value) or any(patch.replacement is value for patch in self._planned)

    def _around(self, patch: Patch, present: Any) -> Patch | None:
        """Return a patch like ``patch`` for what the program has put there; None where there is none."""
        if patch.remake is None or present is _INHERITED:
            return None
        for made in self._remade:
            if made.owner is patch.owner and made.name == patch.name and made.expected is present:
                return made
        self._remade.append(_patch(patch.owner, patch.name, patch.remake(), patch.remake))
        return self._remade[-1]


def _patch(owner: Any, name: str, replacement: Any, remake: Remake | None) -> Patch:
    function = getattr(replacement, "__func__", replacement)
    name_after_owner(function, owner, name)
    if isinstance(function, FunctionType):
        vars(function)[_MARK] = id(function)  # a function that copies the attributes of this one has another id
    is_plain = type(owner) is ModuleType or isinstance(owner, type)
    expected = vars(owner).get(name, _INHERITED)
    return Patch(owner, name, replacement, vars(owner) if is_plain else None, expected, remake)


def _is_wrapper(value: Any) -> bool:
    """Return whether ``value`` is a function that any set has planned."""
    function = getattr(value, "__func__", value)
    return isinstance(function, FunctionType) and vars(function).get(_MARK) == id(function)


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
        _put_back(owner, name, None, original)
    except Exception as error:  # noqa: BLE001  (an owner may refuse with whatever it likes)
        let_through(error)
        return error_text(error)
    return None


def _restore(patch: Patch, original: Any) -> None:
    """Put ``original`` back, unless something else has taken the place of the replacement."""
    owner, name, replacement, members, _, _ = patch
    present = (vars(owner) if members is None else members).get(name, _INHERITED)
    if present is not replacement:
        if present is not original and _is_wrapper(present):
            _covered[id(replacement)] = replacement, original
        return
    while id(original) in _covered:  # it lay under this one, and was taken away before
        original = _covered.pop(id(original))[1]
    _put_back(owner, name, members, original)


def _put_back(owner: Any, name: str, members: Any, original: Any) -> None:
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
        except Exception as error:  # noqa: BLE001  (a module may raise whatever it likes)
            let_through(error)
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
