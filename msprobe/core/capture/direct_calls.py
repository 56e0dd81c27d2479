"""Calls of a module's method that do not come through ``__call__``: ``self.block.forward(x)``.

``ReplacedMethods`` replaces the method in the classes of the modules, ``wrap_direct_call`` makes what stands there. A
class that the program gives another method meanwhile keeps that one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from msprobe.core.capture.slots import place_of
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import never

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class ReplacedMethods:
    """Functions that stand for one method of classes of modules; they can be put there and taken away at any time.

    Args:
        base: the class of all modules, whose own method stays.
        name: the name of the method.
        wrap: returns the function that stands for a method; it is asked once for each.

    Attributes:
        applied: whether the functions are in place. One that the program has wrapped meanwhile stays where it is, and
            does nothing while this is False.
    """

    def __init__(self, base: type, name: str, wrap: Wrap) -> None:
        self._base = base
        self._name = name
        self._wrap = wrap
        self._wrappers: dict[Callable[..., Any], Callable[..., Any]] = {}  # code may be compiled for one of them
        self._owners: dict[type, None] = {}
        self._replaced: dict[type, tuple[tuple[Any, str], Callable[..., Any]]] = {}  # where, and for what
        self.applied = False

    def cover(self, module: Any) -> None:
        """Stand for the method of a module too. One that is no function of Python stays as it is."""
        owner = next((kind for kind in type(module).__mro__ if self._name in vars(kind)), self._base)
        if owner is not self._base and owner not in self._owners:
            self._owners[owner] = None
            if self.applied:
                self._replace(owner)

    def apply(self) -> None:
        """Put the functions in place."""
        self.applied = True
        for owner in self._owners:
            self._replace(owner)

    def undo(self) -> None:
        """Take the functions away, where they still are."""
        self.applied = False
        while self._replaced:
            _, ((place, name), original) = self._replaced.popitem()
            if vars(place).get(name) is self._wrappers[original]:
                setattr(place, name, original)

    def _replace(self, owner: type) -> None:
        place, name = place_of(owner, self._name)
        original = vars(place).get(name)
        if owner in self._replaced or not isinstance(original, FunctionType):
            return
        if original not in self._wrappers:
            self._wrappers[original] = self._wrap(original)
        self._replaced[owner] = (place, name), original
        setattr(place, name, self._wrappers[original])


def wrap_direct_call(
    original: Callable[..., Any],
    observed: Callable[..., Any],
    methods: ReplacedMethods,
    thread: ThreadState,
    traced: Callable[[], bool] = never,
) -> Callable[..., Any]:
    """Return a function to stand for ``original``, the method that ``__call__`` of a module runs.

    A call that does not come from the observed ``__call__`` of the module is reported like one that does. A method that
    calls itself, or that of its base class, is part of the call that runs.

    Args:
        original: the method.
        observed: the method with its calls reported, as ``wrap_module_call`` returns it.
        methods: those in whose place the function stands.
        thread: says which module runs.
        traced: returns whether a compiler reads the code; it then reads the original only.
    """

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # without global names
        if traced() or not methods.applied or thread.module is self:
            return original(self, *args, **kwargs)
        return observed(self, *args, **kwargs)

    return with_globals_of(original, method)


def with_globals_of(original: Callable[..., Any], wrapper: Any) -> Callable[..., Any]:
    """Return ``wrapper``, which uses no global name, with the globals, the name and the signature of ``original``.

    A compiler of scripts reads the lines of the original, and looks the names in them up in what stands for it.
    """
    names = getattr(original, "__globals__", globals())
    return functools.wraps(original)(FunctionType(wrapper.__code__, names, closure=wrapper.__closure__))
