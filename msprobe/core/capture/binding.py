"""A wrapper in the place of a function of a class, bound to what the function was bound to.

What lies in a class decides what a call hands it: the instance (functions), the class (class methods), or neither
(static methods, and callables that know nothing of classes). A wrapper is put there as one of the same kind, and
observes the arguments that the caller wrote; only functions are shown their instance as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from msprobe.core.capture.look_alike import look_like
from msprobe.core.capture.wrap import never

Observe = Callable[[Callable[..., Any]], Callable[..., Any]]


def bound_alike(owner: Any, name: str, observe: Observe, traced: Callable[[], bool] = never) -> Any:
    """What to set as ``owner.name`` so that calls reach ``observe(original)`` with the arguments of the original: a
    function, or a static or class method around one.

    Args:
        observe: makes the wrapper of a callable that is bound already, or binds as functions do.
        traced: see ``wrap``.
    """
    held = _held(owner, name)
    if isinstance(held, classmethod):
        return classmethod(_of_class(held.__func__, observe, traced))
    if isinstance(held, functools.singledispatchmethod):
        return _of_instance(held, observe)
    wrapper = observe(getattr(owner, name))
    if isinstance(held, staticmethod) or not hasattr(type(held), "__get__"):
        return staticmethod(wrapper)
    return wrapper


def _held(owner: Any, name: str) -> Any:
    """What a class itself, or the base it inherits from, holds; a function for owners that bind nothing."""
    places = owner.__mro__ if isinstance(owner, type) else ()
    return next((vars(place)[name] for place in places if name in vars(place)), _held)


def _of_class(function: Callable[..., Any], observe: Observe, traced: Callable[[], bool]) -> Callable[..., Any]:
    def call(kind: type, /, *args: Any, **kwargs: Any) -> Any:
        if traced():
            return function(kind, *args, **kwargs)
        return observe(functools.partial(function, kind))(*args, **kwargs)

    look_like(call, function)
    return call


def _of_instance(held: Any, observe: Observe) -> Callable[..., Any]:
    def call(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        return observe(held.__get__(instance, type(instance)))(*args, **kwargs)

    look_like(call, held.func)
    return call
