"""Wrap a function so that the begin and the end of its calls are reported; the call itself does not change.

Only the outermost observed call of a thread is reported, because the calls that an API makes internally are part of it.
``wrap`` observes a function, ``wrap_module_call`` the ``__call__`` of all modules. ``observe_with_output`` reports a
single call whose record shows something other than its result, such as its arguments afterwards. ``mark_calling`` marks
the time in which an observed function itself runs, where the operators it calls are recorded too.

A wrapper has the name and the signature of its original. In a class it must also be bound as the original was, to the
instance (functions), to the class (class methods) or to nothing (static methods, and callables that are not
descriptors): ``bind_like_original`` returns a wrapper of the same kind, which observes the arguments that the caller
wrote. Only functions record their instance as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from msprobe.core.capture.observer import CallSite, CurrentObserver, Observer
from msprobe.core.capture.slots import place_of
from msprobe.core.capture.thread_state import CALLING, ThreadState
from msprobe.core.interruption import let_through


def never() -> bool:
    """Return False: no compiler reads the code."""
    return False


def wrap(
    original: Callable[..., Any],
    site: CallSite,
    current: CurrentObserver,
    thread: ThreadState,
    traced: Callable[[], bool] = never,
    call_traced: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return a callable that behaves, signs and introspects like ``original`` and reports its calls as ``site``.

    Args:
        original: the function to call.
        site: the API that the calls are recorded as.
        current: holds the current observer.
        thread: is made busy while a call is observed, so that the calls it makes are not reported.
        traced: returns whether a compiler reads the code instead of running it.
        call_traced: what it reads then; None for the original.
    """
    read = call_traced or original

    # One function: a helper would be one more frame in each call, and a compiler that skips this frame would compile
    # the frames that it calls. So operators and collectives have the same lines again.
    def observed(*args: Any, **kwargs: Any) -> Any:
        if traced():
            return read(*args, **kwargs)
        observer = current.observer
        if thread.busy or observer is None:
            return original(*args, **kwargs)
        try:
            thread.busy = True  # inside: an exception from outside may come at any point
            token = observer.api_begin(site, args, kwargs)
            if token is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                observer.fail(token, error)
                raise
            observer.end(token, result)
            return result
        finally:
            thread.busy = False

    copy_signature(observed, original)
    return observed


class Tracing(NamedTuple):
    """What a module call does while a compiler traces it.

    Attributes:
        active: returns whether a compiler reads the code instead of running it.
        call: ``call(original, module, args, kwargs)`` is what the compiler then reads in place of the observed call.
    """

    active: Callable[[], bool]
    call: Callable[..., Any]


def _call_original(original: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return original(module, *args, **kwargs)


_NEVER_TRACED = Tracing(never, _call_original)


def wrap_module_call(
    original: Callable[..., Any],
    find_site: Callable[[Any], Any],
    current: CurrentObserver,
    thread: ThreadState,
    tracing: Tracing = _NEVER_TRACED,
    around_begin: Callable[[Any], AbstractContextManager[None]] | None = None,
) -> Callable[..., Any]:
    """Return a function to stand for ``original``, the ``__call__`` of all modules, that reports their calls.

    Args:
        original: the ``__call__`` of the class of modules.
        find_site: returns the site that a module's call is recorded under, or None for a call that is not recorded.
        current: holds the current observer.
        thread: is made busy while the observer works.
        tracing: what a compiler that traces a module call reads.
        around_begin: returns a context in which ``Observer.module_begin`` is called.
    """
    is_traced, call_traced = tracing

    # One function, as in ``wrap``: a compiler that skips this frame would compile the frames that it calls.
    @functools.wraps(original)
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return call_traced(original, module, args, kwargs)
        observer = current.observer
        site = None if observer is None else find_site(module)
        if observer is None or site is None:
            return original(module, *args, **kwargs)
        outer, thread.module, busy = thread.module, module, thread.busy
        try:  # noqa: PLR1702  (one frame for each level of modules, and no context manager: this is the hot path)
            try:
                thread.busy = True
                if around_begin is None:
                    record = observer.module_begin(site, args, kwargs)
                else:
                    with around_begin(module):
                        record = observer.module_begin(site, args, kwargs)
            finally:
                thread.busy = busy
            if record is None:
                return original(module, *args, **kwargs)
            try:
                result = original(module, *args, **kwargs)
            except BaseException as error:
                try:
                    thread.busy = True
                    observer.module_fail(record, error)
                finally:
                    thread.busy = busy
                raise
            try:
                thread.busy = True
                observer.module_end(record, result)
            finally:
                thread.busy = busy
            return result
        finally:
            thread.module = outer

    return call


def module_call_in_place(
    kind: Any,
    known: dict[Callable[..., Any], Callable[..., Any]],
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
    current: CurrentObserver,
) -> Callable[..., Any]:
    """Return the wrapper of ``kind.__call__``, and note what it stands for in ``current.module_call``.

    The program may have put a function of its own there, which calls an earlier wrapper: that one reports no more.

    Args:
        kind: the class of modules.
        known: the wrappers so far, by what they stand for.
        make: makes a wrapper.
        current: holds the current observer.
    """
    present = getattr(*place_of(kind, "__call__"))
    present = next((original for original, wrapper in known.items() if wrapper is present), present)
    if present not in known:
        known[present] = make(present)
    current.module_call = present
    return known[present]


Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def observe_with_output(
    call: Callable[[], Any],
    site: CallSite,
    arguments: Arguments,
    make_output: Callable[[Any], Any],
    watch: tuple[Observer, ThreadState],
) -> Any:
    """Run ``call``, report it and return its result.

    Args:
        call: the call of the user, with its arguments bound.
        site: the API that the call is recorded as.
        arguments: positional and keyword arguments to record.
        make_output: makes the recorded output of the result. It runs in the user's call, so it must not raise.
        watch: the observer, and the state of this thread, which is not busy yet.
    """
    observer, thread = watch
    try:
        thread.busy = True
        token = observer.api_begin(site, *arguments)
        thread.busy = CALLING
        try:
            result = call()
        except BaseException as error:
            thread.busy = True
            if token is not None:
                observer.fail(token, error)
            raise
        thread.busy = True
        if token is not None:
            observer.end(token, make_output(result))
        return result
    finally:
        thread.busy = False


def mark_calling(
    original: Callable[..., Any], thread: ThreadState, traced: Callable[[], bool] = never
) -> Callable[..., Any]:
    """Return a callable that behaves like ``original`` and runs it with ``thread.busy`` at ``CALLING``.

    Args:
        original: the function to run.
        thread: the state to mark.
        traced: returns whether a compiler reads the code; see ``wrap``.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if traced():
            return original(*args, **kwargs)
        busy = thread.busy
        try:
            thread.busy = CALLING
            return original(*args, **kwargs)
        finally:
            thread.busy = busy

    copy_signature(call, original)
    return call


Observe = Callable[[Callable[..., Any]], Callable[..., Any]]


def bind_like_original(owner: Any, name: str, observe: Observe, traced: Callable[[], bool] = never) -> Any:
    """Return what to set as ``owner.name`` so that calls reach ``observe(original)`` with the original's arguments.

    The result is a function, or a static or class method around one.

    Args:
        owner: a class, a module or any other object that holds the function.
        name: the attribute of ``owner``.
        observe: makes the wrapper of a callable that is bound already, or binds as functions do.
        traced: returns whether a compiler reads the code; see ``wrap``.
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


_PLAIN_FUNCTION = never
"""Any function: it stands for the attributes of owners that bind nothing, such as modules."""


def _held_attribute(owner: Any, name: str) -> Any:
    """Return what a class itself, or the base it inherits from, holds; ``_PLAIN_FUNCTION`` for other owners."""
    classes = owner.__mro__ if isinstance(owner, type) else ()
    return next((vars(kind)[name] for kind in classes if name in vars(kind)), _PLAIN_FUNCTION)


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


def original_of(function: Any) -> Any:
    """Return the function that a wrapper of this file observes; anything else as it is."""
    code = getattr(function, "__code__", None)
    ours = code is not None and code.co_filename == copy_signature.__code__.co_filename
    return getattr(function, "__wrapped__", function) if ours else function


def copy_signature(wrapper: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Give ``wrapper`` the name, signature and attributes of ``original``, as far as it has them."""
    try:
        functools.update_wrapper(wrapper, original)
    except (AttributeError, TypeError) as error:  # a callable without the usual attributes
        let_through(error)
        wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    if not hasattr(original, "__module__"):  # as methods written in C
        wrapper.__module__ = None  # type: ignore[assignment]
    if not hasattr(original, "__annotations__"):
        wrapper.__annotations__ = {}
