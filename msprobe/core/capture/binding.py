"""Put a wrapper in the place of a function of a class, bound to what the function was bound to.

What lies in a class decides what a call hands it: the instance (functions), the class (class methods), or neither
(static methods, and callables that know nothing of classes). A wrapper is put there as one of the same kind, and
observes the arguments that the caller wrote; only functions are shown their instance as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from msprobe.core.capture.look_alike import copy_signature
from msprobe.core.capture.wrap import never

Observe = Callable[[Callable[..., Any]], Callable[..., Any]]


def bind_like_original(owner: Any, name: str, observe: Observe, traced: Callable[[], bool] = never) -> Any:
    """Return what to set as ``owner.name`` so that calls reach ``observe(original)`` with the original's arguments.

    The result is a function, or a static or class method around one.

    Args:
        owner: a class, a module or any other object that holds the function.
        name: the attribute of ``owner``.
        observe: makes the wrapper of a callable that is bound already, or binds as functions do.
        traced: tells whether a compiler reads the code; see ``wrap``.
    """
    held = _held_attribute(owner, name)
    if isinstance(held, classmethod):
        return classmethod(_class_call(held.__func__, observe, traced))
    if isinstance(held, functools.singledispatchmethod):
        return _instance_call(held, observe)
    wrapper = observe(getattr(owner, name))
    if isinstance(held, staticmethod) or not hasattr(type(held), "__get__"):
        return staticmethod(wrapper)
    return wrapper


def _held_attribute(owner: Any, name: str) -> Any:
    """Return what a class itself, or the base it inherits from, holds; a function for owners that bind nothing."""
    classes = owner.__mro__ if isinstance(owner, type) else ()
    return next((vars(kind)[name] for kind in classes if name in vars(kind)), _held_attribute)


def _class_call(function: Callable[..., Any], observe: Observe, traced: Callable[[], bool]) -> Callable[..., Any]:
    def call(kind: type, /, *args: Any, **kwargs: Any) -> Any:
        if traced():
            return function(kind, *args, **kwargs)
        return observe(functools.partial(function, kind))(*args, **kwargs)

    copy_signature(call, function)
    return call


def _instance_call(held: Any, observe: Observe) -> Callable[..., Any]:
    def call(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        return observe(held.__get__(instance, type(instance)))(*args, **kwargs)

    copy_signature(call, held.func)
    return call
